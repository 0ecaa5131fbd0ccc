"""The request of one run of a DAG, and its arguments for `holdfast`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast_airflow import environment

__all__ = ["CHAOS_FOLDER", "COMPACTION_FOLDER", "SERVE_CA", "InvalidRequest", "Request"]

CHAOS_FOLDER = "/var/lib/holdfast-chaos"
"""Mount path of the volume in task pods of chaos runs."""

COMPACTION_FOLDER = "/var/lib/holdfast-compaction"
"""Mount path of the volume in task pods of compaction runs."""

SERVE_CA = "/etc/holdfast/serve-tls/ca.crt"
"""Path of the CA of query servers' certificates in task pods."""

_NO_JOB = "compaction"

_CHAOS_OPTIONS = (
    *("components", "faults", "moments", "rounds", "duration", "seed", "confirm"),
    *("rate", "keys", "distribution", "out_of_order", "late", "tombstones", "garbage", "ask"),
)
_POLICY = ("target_restore_s", "disk_budget_bytes", "min_gain", "max_store_absence_ms")


class InvalidRequest(ValueError):
    """The request makes no sense, and a retry would not help."""


@dataclass(frozen=True)
class Request:
    """The params of a run, with checks beyond their schema.

    `sql` is empty for a run that has no statements (undeploy, chaos).  `run` is the name of
    Airflow's run, in characters that a folder may have.  `plan_hash`: hash of the approved plan.
    `revision` is the one that this run has deployed, 0 before.
    """

    name: str
    target: str
    sql: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    run: str = ""
    plan_hash: str = ""
    revision: int = 0

    @staticmethod
    def of(params: Mapping[str, Any], run: str = "") -> Request:
        """The request in a run's params.

        Raises:
            InvalidRequest: both or neither of `sql` and `sql_file`, or the file cannot be read.
        """
        sql = _statements(params) if "sql" in params else ""
        plain = re.sub("[^A-Za-z0-9.-]+", "-", run).strip(".-")
        name = params.get("name", _NO_JOB)
        return Request(name, params["target"], sql, dict(params), plain)

    @property
    def local(self) -> bool:
        """Whether `holdfast` runs as a process on this machine rather than in a pod."""
        return self.target == "local"

    @property
    def namespace(self) -> str:
        return str(self.params["namespace"])

    @property
    def image(self) -> str:
        return str(self.params["image"])

    def statement_arguments(self) -> list[str]:
        """Arguments of commands that read statements: `explain`, `check`, `topics`."""
        return [
            f"--sql={self.sql}",
            *_settings({"application.id": self.name, **self._properties()}),
            *self._home(),
        ]

    def smoke_arguments(self) -> list[str]:
        """Arguments of `smoke`, with a release's query servers; it finds local ones by itself."""
        return [*self.statement_arguments(), *self._query_servers()]

    def _query_servers(self) -> list[str]:
        serve = self.serve_values()
        if not serve:
            return []
        tls = serve.get("tls", {}).get("existingSecret")
        server = f"--server={'https' if tls else 'http'}://{self.name}-serve:8088"
        return [server, *self._server_ca()]

    def _server_ca(self) -> list[str]:
        tls = self.serve_values().get("tls", {}).get("existingSecret")
        return [f"--server-ca={SERVE_CA}"] if tls else []

    def deploy_arguments(self) -> list[str]:
        """Arguments of `deploy`."""
        return [
            *self.release_arguments(),
            *([] if self.local else [f"--image={self.image}"]),
            f"--sql={self.sql}",
            *_settings(self._properties()),
            f"--executors={self.params['executors']}",
            *(
                [f"--servers={servers}"]
                if self.local and (servers := self.params["servers"])
                else []
            ),
            f"--timeout={self.params['deploy_timeout_minutes'] * 60}",
        ]

    def release_arguments(self) -> list[str]:
        """Arguments of `status`, and the first ones of other commands."""
        return [self.name, *self.place_arguments()]

    def place_arguments(self) -> list[str]:
        """Arguments of `status` for all that is deployed."""
        where = self._home() if self.local else [f"--namespace={self.namespace}"]
        return [f"--target={self.target}", *where]

    def rollback_arguments(self) -> list[str]:
        """Arguments of `rollback`: it undoes what this run has deployed, and nothing else."""
        return [*self.release_arguments(), f"--only-from={self.revision}"]

    def undeploy_arguments(self) -> list[str]:
        """Arguments of `undeploy`."""
        more = ["--delete-state"] if self.params["delete_state"] else []
        return [*self.release_arguments(), *more]

    def rescale_arguments(self) -> list[str]:
        """Arguments of `rescale`."""
        wait_s = self.params["rescale_timeout_minutes"] * 60
        return [
            self.params["query"],
            f"--state-partitions={self.params['state_partitions']}",
            f"--application-id={self.name}",
            f"--timeout={wait_s}",
            *_settings(
                {"bootstrap.servers": servers} if (servers := self._bootstrap_servers()) else {}
            ),
            *_settings(self.params.get("properties") or {}),
            *self._home(),
        ]

    def precheck_arguments(self) -> list[str]:
        """Arguments of `chaos precheck`; empty params are left out and mean everything."""
        where = [] if self.local else [f"--namespace={self.namespace}"]
        return [
            *(self.name, f"--target={self.target}", *where),
            *self.chaos_arguments(),
            *(f"--{name.replace('_', '-')}={_listed(self.params[name])}"
              for name in _CHAOS_OPTIONS if self.params[name] not in (None, [], "")),
            *self._server_ca(),
        ]  # fmt: skip

    def workload_arguments(self) -> list[str]:
        """Arguments of `chaos workload`, which also reads from query servers."""
        return [*self.chaos_arguments(), *self._server_ca()]

    def chaos_arguments(self) -> list[str]:
        """Arguments of the other commands of `chaos`, which find the rest in the run's folder."""
        return [f"--run={self.run}", *self._home(CHAOS_FOLDER)]

    def repair_arguments(self) -> list[str]:
        """Arguments of `compaction repair`."""
        return [*self.params["jobs"], *self._compaction_home(), *self._kafka()]

    def survey_arguments(self) -> list[str]:
        """Arguments of `compaction survey`."""
        topics = None if self.local else self.params["strimzi_namespace"]
        owners = ["--target=kubernetes", f"--namespace={topics}"] if topics else []
        return [
            *self.params["jobs"], *self._of_run(), *self._statuses(), *owners, *self._kafka(),
        ]  # fmt: skip

    def plan_arguments(self) -> list[str]:
        """Arguments of `compaction plan`; policies that are not given have their defaults."""
        given = {key.replace("_", "."): self.params[key] for key in _POLICY}
        named = {key: value for key, value in given.items() if value is not None}
        policy = {**named, **(self.params["policy"] or {})}
        return [*self._of_run(), *(f"--policy={key}={_plain(policy[key])}" for key in policy)]

    def apply_arguments(self) -> list[str]:
        """Arguments of `compaction apply`, with the approved plan's hash."""
        return [*self._of_run(), f"--hash={self.plan_hash}", "--yes", *self._kafka()]

    def verify_arguments(self) -> list[str]:
        """Arguments of `compaction verify`."""
        return [*self._of_run(), *self._statuses(), *self._kafka()]

    def chart_values(self) -> str:
        """More values of the chart as JSON, which YAML readers take; empty for none."""
        values = None if self.local else self.params.get("values")
        return json.dumps(values) if values else ""

    def kafka_values(self) -> dict[str, Any]:
        """The chart values under `kafka`: how its clients connect."""
        kafka: dict[str, Any] = (self.params.get("values") or {}).get("kafka", {})
        return kafka

    def serve_values(self) -> dict[str, Any]:
        """The chart values under `serve`; empty if a task pod cannot query: there are no query
        servers, they require client certificates, or their token is not named.
        """
        found: dict[str, Any] = (self.params.get("values") or {}).get("serve", {})
        auth, tls = found.get("auth", {}), found.get("tls", {})
        closed = tls.get("clientCertificate") or (
            auth.get("existingSecret") and not auth.get("testTokenKey")
        )
        return found if found.get("enabled") and not self.local and not closed else {}

    def _home(self, in_pods: str = "") -> list[str]:
        home = self.params.get("home") if self.local else in_pods
        return [f"--home={home}"] if home else []

    def _compaction_home(self) -> list[str]:
        return self._home(COMPACTION_FOLDER)

    def _statuses(self) -> list[str]:
        """Arguments for drivers' status URLs; none on the drivers' machine, where files have
        them.
        """
        return [] if self.local else [f"--status={environment.status_pattern(self.namespace)}"]

    def _of_run(self) -> list[str]:
        return [f"--run={self.run}", *self._compaction_home()]

    def _kafka(self) -> list[str]:
        return _settings(self._properties())

    def _properties(self) -> dict[str, Any]:
        own = {
            "bootstrap.servers": self._bootstrap_servers(),
            "schema.registry.url": self._schema_registry_url(),
            "state.partitions": self.params.get("state_partitions"),
            "replication.factor": self.params.get("replicas"),
        }
        named = {key: value for key, value in own.items() if value is not None}
        return {**named, **(self.params.get("properties") or {})}

    def _bootstrap_servers(self) -> str | None:
        given: str | None = self.params.get("bootstrap_servers")
        return given or (None if self.local else environment.bootstrap_servers())

    def _schema_registry_url(self) -> str | None:
        """None with other brokers than the environment's: ids belong to the records there."""
        ours = not self.local and self._bootstrap_servers() == environment.bootstrap_servers()
        return environment.schema_registry_url() if ours else None


def _statements(params: Mapping[str, Any]) -> str:
    sql, path = params.get("sql"), params.get("sql_file")
    if bool(sql) == bool(path):
        both = "Both `sql` and `sql_file` are given" if sql else "Neither `sql` nor `sql_file`"
        raise InvalidRequest(f"{both}{'' if sql else ' is given'}. Give exactly one of them.")
    return str(sql) if sql else _read(str(path))


def _read(name: str) -> str:
    folder = environment.sql_folder()
    path = (folder / name).resolve()
    if not path.is_relative_to(folder):
        raise InvalidRequest(
            f"sql_file {name!r} is outside of {folder}. Give a path in that folder; its name is in "
            "Airflow's environment variable HOLDFAST_SQL_FOLDER."
        )
    return _text(path)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"sql_file {path} cannot be read: {error}.") from error


def _settings(properties: Mapping[str, Any]) -> list[str]:
    return [f"--set={key}={_plain(value)}" for key, value in properties.items()]


def _listed(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
