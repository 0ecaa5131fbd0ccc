"""What one run of a DAG was asked for, and the arguments of `holdfast` that say it."""

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
"""Where task pods of chaos runs have their volume."""

COMPACTION_FOLDER = "/var/lib/holdfast-compaction"
"""Where task pods that survey and plan have theirs."""

SERVE_CA = "/etc/holdfast/serve-tls/ca.crt"
"""Where pods that ask query servers have what those are checked by."""

_NO_JOB = "compaction"

_CHAOS_OPTIONS = (
    *("components", "faults", "moments", "rounds", "duration", "seed", "confirm"),
    *("rate", "keys", "distribution", "out_of_order", "late", "tombstones", "garbage", "ask"),
)
_POLICY = ("target_restore_s", "disk_budget_bytes", "min_gain", "max_store_absence_ms")


class InvalidRequest(ValueError):
    """What was asked for makes no sense, and would make no more sense at another try."""


@dataclass(frozen=True)
class Request:
    """The params of a run, checked as far as their schema cannot.

    `sql` is empty for a run that has no statements (undeploy, chaos).  `run` names the run in
    Airflow, in characters that are fit for a folder.  `plan_hash` is that of the plan which was
    approved.
    """

    name: str
    target: str
    sql: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    run: str = ""
    plan_hash: str = ""

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
        """Whether `holdfast` runs as a process of this machine, rather than as a pod."""
        return self.target == "local"

    @property
    def namespace(self) -> str:
        return str(self.params["namespace"])

    @property
    def image(self) -> str:
        return str(self.params["image"])

    def statement_arguments(self) -> list[str]:
        """For commands that read statements: `explain`, `check`, `topics`."""
        return [
            f"--sql={self.sql}",
            *_settings({"application.id": self.name, **self._properties()}),
            *self._home(),
        ]

    def smoke_arguments(self) -> list[str]:
        """For `smoke`: with the query servers of a release, which it can ask; those of a local
        deployment it finds by itself.
        """
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
        """For `deploy`."""
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
        """For commands about a deployment: `status`, `rollback`, and the start of others."""
        where = self._home() if self.local else [f"--namespace={self.namespace}"]
        return [self.name, f"--target={self.target}", *where]

    def undeploy_arguments(self) -> list[str]:
        """For `undeploy`."""
        more = ["--delete-state"] if self.params["delete_state"] else []
        return [*self.release_arguments(), *more]

    def precheck_arguments(self) -> list[str]:
        """For `chaos precheck`; what is empty is left out and means all there is."""
        where = [] if self.local else [f"--namespace={self.namespace}"]
        return [
            *(self.name, f"--target={self.target}", *where),
            *self.chaos_arguments(),
            *(f"--{name.replace('_', '-')}={_listed(self.params[name])}"
              for name in _CHAOS_OPTIONS if self.params[name] not in (None, [], "")),
            *self._server_ca(),
        ]  # fmt: skip

    def workload_arguments(self) -> list[str]:
        """For `chaos workload`, which reads from query servers, too."""
        return [*self.chaos_arguments(), *self._server_ca()]

    def chaos_arguments(self) -> list[str]:
        """For the other commands of `chaos`, which find the rest in the run's folder."""
        return [f"--run={self.run}", *self._home(CHAOS_FOLDER)]

    def repair_arguments(self) -> list[str]:
        """For `compaction repair`."""
        return [*self.params["jobs"], *self._compaction_home(), *self._kafka()]

    def survey_arguments(self) -> list[str]:
        """For `compaction survey`."""
        topics = None if self.local else self.params["strimzi_namespace"]
        owners = ["--target=kubernetes", f"--namespace={topics}"] if topics else []
        return [
            *self.params["jobs"], *self._of_run(), *self._statuses(), *owners, *self._kafka(),
        ]  # fmt: skip

    def plan_arguments(self) -> list[str]:
        """For `compaction plan`; a policy that is not given has its default."""
        given = {key.replace("_", "."): self.params[key] for key in _POLICY}
        named = {key: value for key, value in given.items() if value is not None}
        policy = {**named, **(self.params["policy"] or {})}
        return [*self._of_run(), *(f"--policy={key}={_plain(policy[key])}" for key in policy)]

    def apply_arguments(self) -> list[str]:
        """For `compaction apply`, of the plan that was approved and no other."""
        return [*self._of_run(), f"--hash={self.plan_hash}", "--yes", *self._kafka()]

    def verify_arguments(self) -> list[str]:
        """For `compaction verify`."""
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
        """The chart values under `serve`; empty where a task pod has nobody to ask: there are no
        query servers, or they want a certificate, or a token that is not named.
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
        """Where drivers are asked; on one machine with them, their files say where."""
        return [] if self.local else [f"--status={environment.status_pattern(self.namespace)}"]

    def _of_run(self) -> list[str]:
        return [f"--run={self.run}", *self._compaction_home()]

    def _kafka(self) -> list[str]:
        return _settings(self._properties())

    def _properties(self) -> dict[str, Any]:
        own = {
            "bootstrap.servers": self._bootstrap_servers(),
            "state.partitions": self.params.get("state_partitions"),
            "replication.factor": self.params.get("replicas"),
        }
        named = {key: value for key, value in own.items() if value is not None}
        return {**named, **(self.params.get("properties") or {})}

    def _bootstrap_servers(self) -> str | None:
        given: str | None = self.params.get("bootstrap_servers")
        return given or (None if self.local else environment.bootstrap_servers())


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
