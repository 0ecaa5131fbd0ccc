"""Ends the session of a killed single broker before the broker starts again.

Until its controller notices that a killed broker is gone, a restarted broker finds itself the
leader of everything in the metadata.  Its transaction coordinator continues with what it
finds; then the old session ends, for a moment no partition has a leader, and Kafka drops the
commit and abort markers that wait for one ("these partitions are likely deleted already and hence
can be skipped", KAFKA-20734).  The next transaction of such a producer then commits what was
aborted (ADR 9).

So the node first starts as a controller only, until it has persisted the fencing of the old broker.
A broker that starts earlier finds its own id taken and shuts down as cleanly as if nothing had been
killed: so this module, and not Kafka's files, keeps track of whether a session has ended.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from holdfast.errors import KafkaUnavailable
from holdfast.local.broker_files import controller_properties, log_config
from holdfast.local.probe import free_port

__all__ = [
    "end_session_of_killed",
    "fencing_is_known",
    "session_begins",
    "session_ended",
    "was_killed",
]

_SESSION_MS = 1_000
_FENCING = re.compile(r"Fencing broker 1 at epoch (\d+) ")
# The controller has this in memory; it writes it to its log next.
_FENCED = "BrokerRegistrationChangeRecord(brokerId=1, brokerEpoch={epoch}, fenced=1,"
_UNFENCED_BEFORE_S = 4 * _SESSION_MS / 1000  # a controller becomes active sooner
_ACTIVE = "Becoming the active controller"
_METADATA = "__cluster_metadata-0/*.log"  # grows twice a second, even when idle
_QUIET_POLLS = 3
_TIMEOUT_S = 60.0
_POLL_S = 0.1


def was_killed(data: Path) -> bool:
    """Whether the last broker on these data ended without a shutdown, its session open."""
    return _open_session(data).is_file() or not (data / ".kafka_cleanshutdown").is_file()


def session_begins(data: Path) -> None:
    """Records that a broker is about to start on these data."""
    _open_session(data).touch()


def session_ended(data: Path) -> None:
    """Records that the broker has shut down in an orderly way."""
    _open_session(data).unlink(missing_ok=True)


def _open_session(data: Path) -> Path:
    return data.parent / "session-open"


def end_session_of_killed(java: Sequence[str], folder: Path, data: Path) -> None:
    """Runs the node as a controller until the killed broker is fenced.

    Args:
        java: command line up to the class.
        folder: the folder for the controller's files.

    Raises:
        KafkaUnavailable: the broker was not fenced in time.
    """
    properties, settings = folder / "controller.properties", folder / "controller-log4j2.properties"
    log = folder / "controller.log"
    log.unlink(missing_ok=True)
    settings.write_text(log_config(log), encoding="utf-8")
    properties.write_text(controller_properties(data, free_port(), _SESSION_MS), encoding="utf-8")
    command = [*java, f"-Dlog4j2.configurationFile={settings}", "kafka.Kafka", str(properties)]
    quiet = subprocess.DEVNULL
    controller = subprocess.Popen(
        command, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True
    )
    try:
        _await_fencing(controller, log, data)
    finally:
        controller.terminate()
        controller.wait(_TIMEOUT_S)
    session_ended(data)


def _await_fencing(controller: subprocess.Popen[bytes], log: Path, data: Path) -> None:
    deadline = time.monotonic() + _TIMEOUT_S
    active_at = 0.0
    while True:
        told = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
        active_at = active_at or (time.monotonic() if _ACTIVE in told else 0.0)
        if fencing_is_known(told):
            return _await_written(controller, data, deadline)
        late = active_at and time.monotonic() > active_at + _UNFENCED_BEFORE_S
        if late and not _FENCING.search(told):
            return None
        _check(controller, deadline, log)
        time.sleep(_POLL_S)


def fencing_is_known(told: str) -> bool:
    """Whether a controller's log says that the broker is fenced, not only that fencing begins."""
    found = _FENCING.search(told)
    return found is not None and _FENCED.format(epoch=found[1]) in told[found.end() :]


def _await_written(controller: subprocess.Popen[bytes], data: Path, deadline: float) -> None:
    """Waits until the controller's log has grown and is at rest, so that everything is written."""
    before = size = _metadata_bytes(data)
    quiet = 0
    while size == before or quiet < _QUIET_POLLS:
        _check(controller, deadline, data)
        time.sleep(_POLL_S)
        now = _metadata_bytes(data)
        quiet, size = (quiet + 1 if now == size else 0), now


def _metadata_bytes(data: Path) -> int:
    return sum(path.stat().st_size for path in data.glob(_METADATA))


def _check(controller: subprocess.Popen[bytes], deadline: float, read: Path) -> None:
    if controller.poll() is not None or time.monotonic() >= deadline:
        raise KafkaUnavailable(
            f"Kafka was killed, and its session could not be ended within {_TIMEOUT_S:.0f} s.",
            action=f"read {read}; the next start tries again.",
        )
