"""A real single-node Kafka (KRaft, transactions) as a detached process of this machine."""

from __future__ import annotations

import base64
import json
import shutil
import signal
import subprocess
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from holdfast.config.versions import KAFKA_VERSION
from holdfast.errors import KafkaUnavailable, Refused
from holdfast.local.broker_files import log_config, server_properties
from holdfast.local.broker_session import (
    end_session_of_killed,
    session_begins,
    session_ended,
    was_killed,
)
from holdfast.local.detached import (
    STOP_S,
    end,
    launch,
    locked,
    recorded,
    refuse_taken,
    tail,
    why_silent,
    write_whole,
)
from holdfast.local.jars import kafka_jars
from holdfast.local.java import find_java
from holdfast.local.probe import HOST, free_port, free_ports, serves_producers

__all__ = ["DEFAULT_PORT", "BrokerStatus", "LocalKafka"]

DEFAULT_PORT = 19092
_FORMAT_S = 120.0
_HEAP = "512m"
# Beside Spark on two cores, the optimizing compiler takes half of a broker's time.
_QUICK = "-XX:TieredStopAtLevel=1"


@dataclass(frozen=True)
class BrokerStatus:
    """A running broker; `born` (its birth) tells it from a reused pid."""

    pid: int
    born: str
    port: int

    @property
    def bootstrap_servers(self) -> str:
        return f"{HOST}:{self.port}"


class LocalKafka:
    """Owns one broker's folder, `<home>/kafka`: its data, logs, settings and pid file.

    Any process may call any method; the folder holds all state.
    """

    def __init__(self, home: Path, report: Callable[[str], None] = lambda _: None) -> None:
        """Touches nothing before the first call; `report` receives lines about slow steps."""
        self.folder = home.absolute() / "kafka"
        self.log_file = self.folder / "kafka.log"
        self._data = self.folder / "data"
        self._record = self.folder / "broker.json"
        self._report = report

    def status(self) -> BrokerStatus | None:
        """The running broker, or None."""
        return recorded(self._record, BrokerStatus)

    def start(self, port: int = DEFAULT_PORT) -> BrokerStatus:
        """Start the broker and wait until it serves clients; leaves a running one alone.

        Args:
            port: on the loopback interface; 0 takes a free one.

        Raises:
            Refused: the port is taken, the broker runs on another port, or Java is missing.
            KafkaUnavailable: its jars cannot be downloaded, or it did not start.
        """
        jars = kafka_jars(self._report)
        self.folder.mkdir(parents=True, exist_ok=True)
        with locked(self.folder):
            running = self.status()
            if running is None:
                running = self._launch(jars, port or free_port())
            elif port not in (0, running.port):
                raise Refused(
                    f"Kafka runs on port {running.port} already (pid {running.pid}), not {port}.",
                    action="use that port, or run `holdfast kafka stop` first.",
                )
            self._await_answer(running)
            return running

    def stop(self) -> bool:
        """Stop the broker and wait for its end; keeps its data.  False if none ran.

        Raises:
            KafkaUnavailable: it does not end even on SIGKILL.
        """
        running = self.status()
        if running is None:
            return False
        served = serves_producers(running.port)  # else its present session is unknown
        if end(running.pid, running.born, signal.SIGTERM):
            if served:
                session_ended(self._data)
        elif not end(running.pid, running.born, signal.SIGKILL):
            raise KafkaUnavailable(
                f"Kafka (pid {running.pid}) did not end within {STOP_S:.0f} s of SIGKILL.",
                action="look at the process; it may wait for its disk.",
            )
        self._record.unlink(missing_ok=True)
        return True

    def wipe(self) -> None:
        """Stop the broker and delete everything it holds."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _launch(self, jars: Path, port: int) -> BrokerStatus:
        refuse_taken(port)
        self._write_files(port)
        java = [find_java(), _QUICK, "-cp", f"{jars}/*"]
        java.append(f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}")
        if not (self._data / "meta.properties").is_file():
            self._format(java)
        elif was_killed(self._data):
            self._report("ending the session of a killed broker")
            end_session_of_killed(java, self.folder, self._data)
        session_begins(self._data)
        self._report(f"starting Kafka {KAFKA_VERSION} on port {port}")
        flags = [f"-Xmx{_HEAP}", f"-Xms{_HEAP}", "-XX:+ExitOnOutOfMemoryError"]
        command = [*java, *flags, "kafka.Kafka", str(self.folder / "server.properties")]
        status = BrokerStatus(*launch(command, self.folder / "kafka.out"), port)
        write_whole(self._record, json.dumps(asdict(status)))
        return status

    def _write_files(self, port: int) -> None:
        controller = next(other for other in free_ports(2) if other != port)
        write_whole(
            self.folder / "server.properties", server_properties(self._data, port, controller)
        )
        write_whole(self.folder / "log4j2.properties", log_config(self.log_file))

    def _format(self, java: list[str]) -> None:
        """Write a new data folder's identity; replaces a half-written one from a crash."""
        shutil.rmtree(self._data, ignore_errors=True)
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        command = [*java, "kafka.tools.StorageTool", "format", f"--cluster-id={cluster_id}"]
        command += ["--config", str(self.folder / "server.properties")]
        ran = subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=_FORMAT_S
        )
        if ran.returncode != 0:
            raise KafkaUnavailable(
                f"Kafka could not prepare {self._data} (exit {ran.returncode}):\n"
                f"{tail(ran.stdout + ran.stderr)}",
                action="look for the reason above; is the disk full, may the folder be written?",
            )

    def _await_answer(self, broker: BrokerStatus) -> None:
        logs = (self.log_file, self.folder / "kafka.out")
        if silent := why_silent("Kafka", broker, serves_producers, logs):
            raise KafkaUnavailable(silent, action=f"read {logs[0]} and {logs[1]}.")
