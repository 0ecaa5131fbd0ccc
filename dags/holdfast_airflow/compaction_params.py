"""The params of `plan_changelog_compaction`."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Param

from holdfast_airflow import environment
from holdfast_airflow.params import (
    PROPERTY_NAME,
    exactly,
    time_to_answer,
    where_it_runs,
    with_defaults,
)

__all__ = ["compaction_params"]

_WHAT, _WHERE, _POLICY, _APPROVAL = "Changelogs", "Where it runs", "Policy", "Approval"


def compaction_params() -> dict[str, Any]:
    """All params; Airflow's environment may set other defaults."""
    params = {**_jobs(), **_policy(), **_approval(), **where_it_runs(), **_kafka()}
    defaults = environment.compaction_defaults()
    return with_defaults(params, defaults, "HOLDFAST_COMPACTION_PARAMS")


def _jobs() -> dict[str, Any]:
    return {
        "jobs": Param(
            [],
            type="array",
            items={"type": "string", "pattern": exactly("[A-Za-z0-9][A-Za-z0-9._-]*")},
            uniqueItems=True,
            title="Jobs",
            description_md="Names (`application.id`) of the jobs whose changelogs are looked at. "
            "Empty: all that are found in Kafka.",
            examples=["movies"],
            section=_WHAT,
        ),
    }


def _policy() -> dict[str, Any]:
    return {
        "target_restore_s": Param(
            None,
            type=["null", "number"],
            exclusiveMinimum=0,
            title="Restore time",
            description="Seconds that a full restore of a table may take. Empty: no target.",
            section=_POLICY,
        ),
        "disk_budget_bytes": Param(
            None,
            type=["null", "integer"],
            minimum=1,
            title="Disk budget",
            description="Bytes that all changelogs together may take on disk, of one replica. "
            "Empty: no budget.",
            section=_POLICY,
        ),
        "min_gain": Param(
            None,
            type=["null", "number"],
            minimum=0,
            maximum=1,
            title="Least gain",
            description="Share of its bytes that a topic must win, or it is left alone. Empty: the "
            "command's default.",
            section=_POLICY,
        ),
        "max_store_absence_ms": Param(
            None,
            type=["null", "integer"],
            minimum=0,
            title="Longest absence",
            description="Milliseconds that a store may be away: tombstones are kept for as long. "
            "Empty: the command's default.",
            section=_POLICY,
        ),
        "policy": Param(
            {},
            type="object",
            propertyNames={"pattern": exactly("[a-z][a-z0-9.-]*")},
            additionalProperties={"type": ["string", "number", "boolean"]},
            title="More of the policy",
            description_md="Other keys; `holdfast compaction plan --help` lists them.",
            examples=[{"allow.roll": False}],
            section=_POLICY,
        ),
    }


def _approval() -> dict[str, Any]:
    return {
        "auto_approve": Param(
            False,
            type="boolean",
            title="Approve by itself",
            description="Carry out a plan within the limits below without asking. A plan beyond "
            "one of them is asked about all the same.",
            section=_APPROVAL,
        ),
        "auto_approve_max_cleaner_gb": Param(
            10,
            type="number",
            minimum=0,
            title="Limit: work",
            description="GB that the cleaner may read and write for a plan nobody is asked about.",
            section=_APPROVAL,
        ),
        "auto_approve_temporary_only": Param(
            True,
            type="boolean",
            title="Limit: temporary settings only",
            description="Whether a person is asked as soon as a setting would change for good.",
            section=_APPROVAL,
        ),
        "auto_approve_risks": Param(
            False,
            type="boolean",
            title="Limit: risks",
            description="Whether a plan that names risks may go unasked.",
            section=_APPROVAL,
        ),
        "approval_timeout_hours": time_to_answer(_APPROVAL),
    }


def _kafka() -> dict[str, Any]:
    return {
        "properties": Param(
            {},
            type="object",
            propertyNames={"pattern": PROPERTY_NAME},
            additionalProperties={"type": ["string", "number", "boolean"]},
            title="Properties",
            description_md="More properties, for example `kafka.*` settings of the clients.",
            section=_WHERE,
        ),
        "values": Param(
            {},
            type="object",
            title="Chart values",
            description_md="Those under `kafka` that jobs are deployed with, if their Kafka wants "
            "credentials. Target kubernetes only.",
            section=_WHERE,
        ),
        "strimzi_namespace": Param(
            environment.strimzi_namespace(),
            type=["null", "string"],
            pattern=exactly("[a-z0-9]([a-z0-9-]*[a-z0-9])?"),
            maxLength=63,
            title="Namespace of KafkaTopics",
            description="Where Strimzi's KafkaTopic resources lie: a topic that has one is changed "
            "through it. Empty: without Strimzi. Target kubernetes only.",
            section=_WHERE,
        ),
    }
