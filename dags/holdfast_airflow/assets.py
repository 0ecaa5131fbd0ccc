"""Tables as Airflow's assets: which there are is known at run time, so an alias names them all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow.sdk import Asset, AssetAlias, BaseOperator

from holdfast_airflow import environment
from holdfast_airflow.operator import request_of

if TYPE_CHECKING:
    from airflow.sdk import Context

    from holdfast_airflow.request import Request

__all__ = [
    "TABLES",
    "PublishChaos",
    "PublishCompaction",
    "PublishDeployment",
    "asset_uri",
    "cluster_of",
]

TABLES = "holdfast-tables"
"""The alias of every table's asset, for DAGs that any table triggers."""

_LOCAL = "local"
_STATEMENT_MAX = 4000  # characters; events are rows of Airflow's database


def asset_uri(cluster: str, table: str) -> str:
    """The URI of a table's asset."""
    return f"holdfast://{quote(cluster, safe='')}/{quote(table, safe='')}"


class _Publish(BaseOperator):
    """Tells that tables are level, or were judged: an event of the asset of each.

    Args:
        told_by: task whose XCom has the facts.
    """

    ui_color = "#e3eefa"

    def __init__(self, *, told_by: str, **kwargs: Any) -> None:
        super().__init__(outlets=[AssetAlias(TABLES)], **kwargs)
        self.told_by = told_by

    def events(self, context: Context) -> Iterator[tuple[str, dict[str, Any]]]:
        """Each table, with the metadata of its event."""
        raise NotImplementedError

    def execute(self, context: Context) -> list[str]:
        cluster = cluster_of(request_of(context))
        run = f"{context['dag'].dag_id}/{context['run_id']}"
        uris = []
        for table, facts in self.events(context):
            uri = asset_uri(cluster, table)
            known = {key: value for key, value in facts.items() if value is not None}
            context["outlet_events"][AssetAlias(TABLES)].add(Asset(uri), {**known, "run": run})
            self.log.info("%s: %s", uri, known)
            uris.append(uri)
        return uris


class PublishDeployment(_Publish):
    """After a deployment whose smoke check is `told_by`.

    Args:
        deploy: task that deployed.
        caught_up: task that waited until the job was level.
    """

    def __init__(self, *, deploy: str, caught_up: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.deploy, self.caught_up = deploy, caught_up

    def events(self, context: Context) -> Iterator[tuple[str, dict[str, Any]]]:
        task, job = context["ti"], request_of(context).name
        revision = (task.xcom_pull(task_ids=self.deploy) or {}).get("revision")
        level = task.xcom_pull(task_ids=self.caught_up) or {}
        for query in (task.xcom_pull(task_ids=self.told_by) or {}).get("queries", []):
            if query["internal"]:
                continue
            yield (
                query["sink"],
                {
                    "event": "deployed",
                    "verdict": "level",
                    "job": job,
                    "revision": revision,
                    "lag": level.get("lag"),
                    "rows": (level.get("rows") or {}).get(query["sink"]),
                    "statement": query["statement"][:_STATEMENT_MAX],
                    "warnings": query["warnings"],
                },
            )


class PublishChaos(_Publish):
    """After a chaos run whose report is `told_by`; a bad verdict is an event, too."""

    def events(self, context: Context) -> Iterator[tuple[str, dict[str, Any]]]:
        told = context["ti"].xcom_pull(task_ids=self.told_by)
        for table in told["tables"]:
            yield (
                table["name"],
                {
                    "event": "chaos",
                    "verdict": table["verdict"],
                    "run_verdict": told["verdict"],
                    "job": told["job"],
                    "rows": table["rows"],
                    "report": told["report"],
                },
            )


class PublishCompaction(_Publish):
    """After a compaction that `told_by` has verified."""

    def events(self, context: Context) -> Iterator[tuple[str, dict[str, Any]]]:
        told = context["ti"].xcom_pull(task_ids=self.told_by) or {}
        for topic in told.get("topics", []):
            if topic.get("table"):
                yield topic["table"], _compacted(topic, told)


def _compacted(topic: Mapping[str, Any], told: Mapping[str, Any]) -> dict[str, Any]:
    parts = topic.get("partitions", [])
    return {
        "event": "compaction",
        "verdict": told["verdict"],
        "outcome": topic["outcome"],
        "changelog": topic["topic"],
        "changelog_bytes": sum(part["bytes_real"] for part in parts) if parts else None,
        "changelog_records": sum(part["records_real"] for part in parts) if parts else None,
        "report": told["report"],
    }


def cluster_of(request: Request) -> str:
    """The name of the Kafka cluster: the one that this Airflow gives it, else its first host."""
    given: str | None = request.params.get("bootstrap_servers")
    if given:
        return _host(given)
    if named := environment.cluster():
        return named
    return _LOCAL if request.local else _host(environment.bootstrap_servers())


def _host(servers: str) -> str:
    return servers.partition(",")[0].rpartition(":")[0].strip("[]")
