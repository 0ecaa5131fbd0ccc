"""The params of the DAGs, for Airflow's trigger form and API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk import Param

from holdfast_airflow import environment

__all__ = [
    "PROPERTY_NAME",
    "WHAT",
    "WHERE",
    "deploy_params",
    "exactly",
    "lock_timeout",
    "rescale_params",
    "time_to_answer",
    "undeploy_params",
    "where_it_runs",
    "with_defaults",
]

WHAT, WHERE = "The table", "Where it runs"
"""Sections of the form."""

_SIZE, _LIMITS = "Size", "Time limits"


def exactly(pattern: str) -> str:
    """A regular expression for a whole text, in the syntax of browsers and of Python.

    A `$` alone lets a newline at the end pass in Python.
    """
    return rf"^(?:{pattern})$(?!\n)"


# A copy from holdfast.config.secrets, which cannot be imported here; a test compares them.
_HIDDEN_NAMES = r"passw|passphrase|secret|jaas|oauthbearer\.config|key\.pem|user\.info|auth\.token"
PROPERTY_NAME = exactly(rf"(?!.*(?:{_HIDDEN_NAMES})(?!.*\.(?:file|location)$))[A-Za-z0-9._-]+")
"""Names of properties except secrets: params are stored, and shown to all who may see the DAG."""

_HOST = "[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]+)?/"
_WORDS = "[a-z0-9]+([._-]+[a-z0-9]+)*"
_TAG, _DIGEST = ":[A-Za-z0-9_][A-Za-z0-9._-]{0,127}", "@sha256:[a-f0-9]{64}"
_IMAGE = f"({_HOST})?{_WORDS}(/{_WORDS})*({_TAG})?({_DIGEST})?"


_KAFKA_VALUES = {
    "type": "object",
    "properties": {"properties": {"type": "object", "propertyNames": {"pattern": PROPERTY_NAME}}},
}


def _name() -> Param:
    return Param(
        type="string",
        title="Name",
        description_md="Name of the job: its Helm release and its `application.id`, which prefixes "
        "its changelogs, transactional ids and consumer groups.",
        pattern=exactly("[a-z]([a-z0-9-]*[a-z0-9])?"),
        minLength=1,
        maxLength=40,
        examples=["movies"],
        section=WHAT,
    )


def where_it_runs() -> dict[str, Any]:
    """Params for the target of commands and their Kafka."""
    return {
        "target": Param(
            "kubernetes",
            type="string",
            enum=["kubernetes", "local"],
            values_display={
                "kubernetes": "Kubernetes: a Helm release",
                "local": "local: processes beside Airflow",
            },
            title="Target",
            section=WHERE,
        ),
        "namespace": Param(
            environment.namespace(),
            type="string",
            pattern=exactly("[a-z0-9]([a-z0-9-]*[a-z0-9])?"),
            maxLength=63,
            title="Namespace",
            description="Of the job and of this run's task pods. Target kubernetes only.",
            section=WHERE,
        ),
        "image": Param(
            environment.image(),
            type="string",
            pattern=exactly(_IMAGE),
            maxLength=512,
            title="Holdfast image",
            description="Runs the job and this run's task pods: REPOSITORY:TAG, and @sha256:… for "
            "exactly that one. Target kubernetes only.",
            section=WHERE,
        ),
        "bootstrap_servers": Param(
            None,
            type=["null", "string"],
            pattern=exactly(r"[^\s,:]+:[0-9]+(,[^\s,:]+:[0-9]+)*"),
            title="Kafka brokers",
            description="host:port, comma-separated. Empty: those of this Airflow's environment "
            "(kubernetes), the broker that runs in the home folder (local).",
            examples=["kafka-1:9092,kafka-2:9092"],
            section=WHERE,
        ),
        "home": Param(
            None,
            type=["null", "string"],
            title="Home folder",
            description="Folder of all local files. Empty: .holdfast. Target local only.",
            section=WHERE,
        ),
    }


def _minutes(default: int, maximum: int, title: str, description: str) -> Param:
    return Param(
        default,
        type="integer",
        minimum=1,
        maximum=maximum,
        title=title,
        description=description,
        section=_LIMITS,
    )


def _table() -> dict[str, Any]:
    return {
        "name": _name(),
        "sql": Param(
            None,
            type=["null", "string"],
            format="multiline",
            title="SQL",
            description="The statements. Give either this or an SQL file.",
            examples=["CREATE TABLE t AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;"],
            section=WHAT,
        ),
        "sql_file": Param(
            None,
            type=["null", "string"],
            title="SQL file",
            description="Path of a file of statements, relative to the folder HOLDFAST_SQL_FOLDER "
            "of the Airflow workers (the DAGs' folder by default).",
            examples=["sql/movies.sql"],
            section=WHAT,
        ),
        "state_partitions": Param(
            None,
            type=["null", "integer"],
            minimum=1,
            maximum=1024,
            title="State partitions",
            description="Parallelism of a new table; the DAG rescale_state_table changes it "
            "later. Empty: 8.",
            section=WHAT,
        ),
        "properties": Param(
            {},
            type="object",
            propertyNames={"pattern": PROPERTY_NAME},
            additionalProperties={"type": ["string", "number", "boolean"]},
            title="Properties",
            description_md="More properties of the job; `holdfast config` lists them. Passwords "
            "are refused: name a Secret in the chart values `kafka.secretProperties`.",
            examples=[{"max.offsets.per.trigger": 100000}],
            section=WHAT,
        ),
    }


def _size() -> dict[str, Any]:
    return {
        "executors": Param(
            2,
            type="integer",
            minimum=1,
            maximum=1000,
            title="Executors",
            description="Executor pods or processes, one core each.",
            section=_SIZE,
        ),
        "servers": Param(
            0,
            type="integer",
            minimum=0,
            maximum=100,
            title="Query servers",
            description_md="Query servers beside the job, which the smoke check reads from. Target "
            "local only; on Kubernetes the chart values `serve.enabled`, `serve.replicas` and "
            "`serve.auth`.",
            section=_SIZE,
        ),
        "replicas": Param(
            None,
            type=["null", "integer"],
            minimum=1,
            maximum=32,
            title="Topic replicas",
            description="Copies of every topic that Holdfast creates. Empty: the broker's default.",
            section=_SIZE,
        ),
        "values": Param(
            {},
            type="object",
            properties={"kafka": _KAFKA_VALUES},
            title="Chart values",
            description_md="More values of the chart `holdfast` (volumes, resources, Kafka's "
            "`secretProperties` and TLS, node selectors …). Target kubernetes only.",
            examples=[{"executor": {"volume": {"size": "50Gi"}}}],
            section=_SIZE,
        ),
    }


def deploy_params() -> dict[str, Any]:
    """Params of `deploy_state_table`."""
    return {
        **_table(),
        **where_it_runs(),
        **_size(),
        "deploy_timeout_minutes": _minutes(
            15, 110, "Deploy", "Until the new revision is ready; then the old one comes back."
        ),
        "catch_up_timeout_minutes": _minutes(
            60, 2880, "Catch up", "Until the job has read its sources; then it is rolled back."
        ),
        **lock_timeout(),
    }


def undeploy_params() -> dict[str, Any]:
    """Params of `undeploy_state_table`."""
    return {
        "name": _name(),
        **where_it_runs(),
        "delete_state": Param(
            False,
            type="boolean",
            title="Delete the volumes",
            description="Local stores only: topics stay, and a later deployment restores the "
            "stores from their changelogs.",
            section=_LIMITS,
        ),
        **lock_timeout(),
    }


def lock_timeout() -> dict[str, Any]:
    """The param for how long a run waits for another run that changes the same job."""
    return {
        "lock_timeout_minutes": Param(
            60,
            type="integer",
            minimum=0,
            maximum=2880,
            title="Wait for other runs",
            description="Minutes to wait while another run changes the same job; 0: fail at once.",
            section=_LIMITS,
        )
    }


def time_to_answer(section: str) -> Param:
    """The param for the hours that a person has to approve or reject."""
    return Param(
        72,
        type="number",
        exclusiveMinimum=0,
        maximum=168,
        title="Time to answer",
        description="Hours until silence is a no.",
        section=section,
    )


def rescale_params() -> dict[str, Any]:
    """Params of `rescale_state_table`."""
    return {
        "name": _name(),
        "query": Param(
            type="string",
            title="Query",
            description_md="Id of the query whose state is rescaled; `holdfast status` lists them.",
            pattern=exactly("[A-Za-z0-9._-]+"),
            minLength=1,
            maxLength=200,
            examples=["ctas_movie_tickets_sold"],
            section=WHAT,
        ),
        "state_partitions": Param(
            type="integer",
            minimum=1,
            maximum=1024,
            title="State partitions",
            description="Their number from now on.",
            section=WHAT,
        ),
        "properties": _table()["properties"],
        **where_it_runs(),
        "approval_timeout_hours": time_to_answer(_LIMITS),
        "rescale_timeout_minutes": _minutes(
            60, 1440, "Rescale", "How long the run waits for the job, which goes on afterwards."
        ),
        **lock_timeout(),
    }


def with_defaults(
    params: dict[str, Param], defaults: Mapping[str, Any], variable: str
) -> dict[str, Param]:
    """The params with other defaults, for the scheduled runs of a DAG.

    Args:
        variable: the environment variable with the defaults.

    Raises:
        ValueError: the DAG has no such param.
    """
    for name, value in defaults.items():
        if name not in params:
            raise ValueError(
                f"{variable} has {name!r}, which is no param of this DAG; there are: "
                f"{', '.join(params)}."
            )
        params[name].value = value
    return params
