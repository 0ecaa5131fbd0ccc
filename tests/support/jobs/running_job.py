"""A job as `holdfast run` starts it, in a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.deploy.local.processes import signal_all, tree_of
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.reader import Chunk, PartitionReader
from holdfast.types.status import ExecutorStatus, JobStatus, status_path

__all__ = ["WAIT_S", "RunningJob"]

WAIT_S = 240.0  # a slow machine is slow, not wrong


@dataclass
class RunningJob:
    """One application: its home, whose `job.sql` has the statements, its Kafka, its process.

    Attributes:
        properties: set for the job, beside its brokers and its application id.
    """

    home: Path
    client: dict[str, str]
    application_id: str
    properties: dict[str, str] = field(default_factory=dict, kw_only=True)
    process: subprocess.Popen[bytes] | None = field(default=None, kw_only=True)

    def command(self, *extra: str) -> list[str]:
        properties = {
            "bootstrap.servers": self.client["bootstrap.servers"],
            "application.id": self.application_id,
            **self.properties,
        }
        sets = [part for name, value in properties.items() for part in ("--set", f"{name}={value}")]
        return [
            sys.executable, "-m", "holdfast.cli.main", "run", str(self.home / "job.sql"),
            "--home", str(self.home), *sets, *extra,
        ]  # fmt: skip

    def start(self) -> None:
        with (self.home / "driver.log").open("ab") as log:
            self.process = subprocess.Popen(
                self.command(), stdout=log, stderr=log, start_new_session=True
            )

    def finish(self, *extra: str) -> subprocess.CompletedProcess[str]:
        """Runs until caught up; returns what it printed."""
        return subprocess.run(
            self.command("--until-caught-up", *extra),
            capture_output=True, text=True, timeout=WAIT_S, check=False,
        )  # fmt: skip

    def status(self) -> JobStatus | None:
        return JobStatus.read(status_path(self.home, self.application_id))

    def until(self, holds: Callable[[JobStatus], bool], what: str) -> JobStatus:
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            status = self.status()
            if status is not None and holds(status):
                return status
            assert self.process is None or self.process.poll() is None, self.log()
            time.sleep(0.1)
        raise AssertionError(f"{what} did not happen in {WAIT_S} s:\n{self.log()}")

    @staticmethod
    def kill_executor(victim: ExecutorStatus) -> None:
        """SIGKILL to an executor and its workers."""
        executor, *workers = tree_of(victim.jvm_pid)
        signal_all([*workers, executor], signal.SIGKILL)  # some workers end by themselves

    def log(self) -> str:
        """The end of the driver's log."""
        return self.log_text()[-6000:]

    def log_text(self) -> str:
        file = self.home / "driver.log"
        return file.read_text() if file.exists() else ""

    def stop(self) -> int | None:
        """Asks it to end; its exit status, None if it never started."""
        if self.process is None:
            return None
        if self.process.poll() is None:
            self.process.terminate()
        return self.process.wait(timeout=WAIT_S)

    def chunks(self, topic: str) -> Iterator[Chunk]:
        for partition, (start, end) in Admin(self.client).bounds(topic).items():
            reader = PartitionReader(self.client, topic, partition, headers=True)
            yield from reader.read(start, end)
            reader.close()

    def records(self, topic: str) -> Iterator[tuple[bytes | None, bytes | None]]:
        """Keys and values."""
        for chunk in self.chunks(topic):
            yield from zip(chunk.keys, chunk.values, strict=True)
