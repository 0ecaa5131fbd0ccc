"""A real schema registry (Apicurio) as a detached process of this machine, its data in Kafka."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import shutil
import signal
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from holdfast.config.versions import REGISTRY_SHA256, REGISTRY_VERSION
from holdfast.errors import Refused, RegistryUnavailable, Retriable
from holdfast.local.broker import LocalKafka
from holdfast.local.detached import (
    STOP_S,
    end,
    launch,
    locked,
    recorded,
    refuse_taken,
    why_silent,
    write_whole,
)
from holdfast.local.ivy import REPOSITORY_VARIABLE, Program, downloaded_jars
from holdfast.local.java import find_java
from holdfast.local.probe import HOST, free_port
from holdfast.local.processes import end_session
from holdfast.types.columns.schemas import READY_PAGE

__all__ = ["DEFAULT_PORT", "LocalRegistry", "RegistryStatus", "is_ready"]

DEFAULT_PORT = 18081
_API = "/apis/ccompat/v7"  # Confluent's, which clients of a schema registry speak
_ANSWER_S = 5.0
_HEAP = "256m"
_QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:+ExitOnOutOfMemoryError")
_PROPERTIES = Path(__file__).with_suffix(".properties")  # what it has in the cluster, too


@dataclass(frozen=True)
class RegistryStatus:
    """A running registry.

    `born` (its birth) tells it from a reused pid; its data are in Kafka at
    `bootstrap_servers`.
    """

    pid: int
    born: str
    port: int
    bootstrap_servers: str

    @property
    def url(self) -> str:
        """The address for `schema.registry.url`."""
        return f"http://{HOST}:{self.port}{_API}"


class LocalRegistry:
    """Owns one registry's folder, `<home>/registry`: its logs and pid file.

    Schemas are kept in topics of the same home's Kafka, so they live and end with the records that
    name them.  Any process may call any method; the folder holds all state.
    """

    def __init__(self, home: Path, report: Callable[[str], None] = lambda _: None) -> None:
        """Touches nothing before the first call; `report` receives lines about slow steps."""
        self.folder = home.absolute() / "registry"
        self.log_file = self.folder / "registry.log"
        self._output = self.folder / "registry.out"
        self._record = self.folder / "registry.json"
        self._kafka = LocalKafka(home)
        self._report = report

    def status(self) -> RegistryStatus | None:
        """The running registry, or None."""
        return recorded(self._record, RegistryStatus)

    def start(self, port: int = DEFAULT_PORT) -> RegistryStatus:
        """Start the registry and wait until it has read its topics; leaves a running one alone.

        Args:
            port: on the loopback interface; 0 takes a free one.

        Raises:
            Refused: the home's Kafka does not run, the port is taken, the registry runs on another
                port or with another Kafka, or Java is missing.
            RegistryUnavailable: it cannot be downloaded, or it did not start.
        """
        servers = self._servers()
        program = _downloaded(self._report)
        self.folder.mkdir(parents=True, exist_ok=True)
        with locked(self.folder):
            running = self.status()
            if running is None:
                running = self._launch(program, port or free_port(), servers)
            else:
                _check_same(running, port, servers)
            self._await_answer(running)
            return running

    def stop(self) -> bool:
        """Stop the registry and all it started, and wait; its schemas stay.  False if none ran.

        Raises:
            RegistryUnavailable: it does not end even on SIGKILL.
        """
        running = self.status()
        if running is None:
            return False
        end(running.pid, running.born, signal.SIGTERM)
        end_session(running.pid, grace_s=0)
        if not end(running.pid, running.born, signal.SIGKILL):
            raise RegistryUnavailable(
                f"The registry (pid {running.pid}) did not end within {STOP_S:.0f} s of SIGKILL.",
                action="look at the process; it may wait for its disk.",
            )
        self._record.unlink(missing_ok=True)
        return True

    def wipe(self) -> None:
        """Stop the registry and delete its folder; its schemas are Kafka's to delete."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _servers(self) -> str:
        kafka = self._kafka.status()
        if kafka is None:
            raise Refused(
                f"The Kafka of {self.folder.parent} does not run.",
                cause="the local registry keeps its schemas in Kafka.",
                action=f"run `holdfast kafka start --home {self.folder.parent}` first.",
            )
        return kafka.bootstrap_servers

    def _launch(self, program: Path, port: int, servers: str) -> RegistryStatus:
        refuse_taken(port)
        self._report(f"starting Apicurio Registry {REGISTRY_VERSION} on port {port}")
        options = [f"-D{key}={value}" for key, value in self._options(port, servers).items()]
        jar = program / f"apicurio-registry-app-{REGISTRY_VERSION}-runner.jar"
        command = [find_java(), f"-Xmx{_HEAP}", *_QUICK, *options, "-jar", str(jar)]
        status = RegistryStatus(*launch(command, self._output), port, servers)
        write_whole(self._record, json.dumps(asdict(status)))
        return status

    def _options(self, port: int, servers: str) -> Mapping[str, str]:
        """Apicurio's properties: the loopback interface only, schemas in Kafka, small pools."""
        return _everywhere() | {
            "quarkus.http.host": HOST,
            "quarkus.http.port": str(port),
            "quarkus.log.console.enable": "false",
            "quarkus.log.file.enable": "true",
            "quarkus.log.file.path": str(self.log_file),
            "quarkus.log.file.rotation.max-file-size": "10M",
            "quarkus.log.file.rotation.max-backup-index": "2",
            "apicurio.storage.snapshot.location": str(self.folder),
            "apicurio.import.work-dir": str(self.folder),
            "apicurio.kafkasql.bootstrap.servers": servers,
        }  # fmt: skip

    def _await_answer(self, registry: RegistryStatus) -> None:
        if silent := why_silent("The registry", registry, is_ready, (self.log_file, self._output)):
            raise RegistryUnavailable(
                silent,
                action=f"read {self.log_file} and {self._output}; does Kafka run at "
                f"{registry.bootstrap_servers}?",
            )


def _everywhere() -> dict[str, str]:
    lines = _PROPERTIES.read_text(encoding="utf-8").splitlines()
    pairs = (line.partition("=") for line in lines if not line.startswith("#"))
    return {key: value for key, _, value in pairs}


def is_ready(port: int) -> bool:
    """Whether a registry on this port has read all its schemas; before that it serves some."""
    connection = http.client.HTTPConnection(HOST, port, timeout=_ANSWER_S)
    try:
        connection.request("GET", READY_PAGE)
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _check_same(running: RegistryStatus, port: int, servers: str) -> None:
    if port not in (0, running.port):
        fact = f"on port {running.port} already (pid {running.pid}), not {port}."
        action = "use that port, or run `holdfast registry stop` first."
    elif running.bootstrap_servers != servers:
        fact = f"with the Kafka at {running.bootstrap_servers} (pid {running.pid}), not {servers}."
        action = "run `holdfast registry stop` first."
    else:
        return
    raise Refused(f"The registry runs {fact}", action=action)


def _downloaded(report: Callable[[str], None]) -> Path:
    try:
        return downloaded_jars(_program(), report, os.environ)
    except Retriable as error:
        raise RegistryUnavailable(
            error.fact,
            cause=error.cause,
            action="connect once, it is then kept; or set JAVA_TOOL_OPTIONS to your proxy "
            f"(-Dhttps.proxyHost=… -Dhttps.proxyPort=…), or {REPOSITORY_VARIABLE} to the address "
            "of a Maven mirror. A registry that runs already serves as well: set "
            "schema.registry.url.",
        ) from error


def _program() -> Program:
    return Program(
        name="Apicurio Registry",
        version=REGISTRY_VERSION,
        coordinates=(f"io.apicurio:apicurio-registry-app:{REGISTRY_VERSION}:all:tar.gz",),
        main_jar="apicurio-registry-app-*-all.tar.gz",
        size_mb=109,
        check=_check_sum,
        transitive=False,
    )


def _check_sum(folder: Path) -> None:
    """Raises `Refused` unless the archive is the pinned one."""
    for archive in folder.iterdir():
        with archive.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != REGISTRY_SHA256:
            raise Refused(
                f"{archive.name} is not the pinned one: its SHA-256 is {found}, not "
                f"{REGISTRY_SHA256}.",
                cause="a mirror or a proxy gave another file, or REGISTRY_VERSION was changed "
                "without REGISTRY_SHA256.",
                action="do not run it; find out who changed it, or download from Maven Central.",
            )
