"""After a single broker was killed: its session must end before it starts again.

Until its controller has noticed that a killed broker is gone, the broker that starts again finds
itself leader of everything in the metadata.  Its transaction coordinator goes on with what it
finds; then the old session ends, for a moment no partition has a leader, and Kafka drops the
commit and abort markers that wait for one ("these partitions are likely deleted already and hence
can be skipped", KAFKA-20734).  The next transaction of such a producer then commits what was
aborted (ADR 9).

So the node starts as a controller alone first, until the fencing of the old broker is on its disk.
A broker that starts before that finds its own id taken, and shuts down as cleanly as if nothing had
been killed: whether a session was ended is this module's own fact, and not Kafka's file.
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
# The controller's own memory of it; what it has put there it writes to its log next.
_FENCED = "BrokerRegistrationChangeRecord(brokerId=1, brokerEpoch={epoch}, fenced=1,"
_UNFENCED_BEFORE_S = 4 * _SESSION_MS / 1000  # an active controller would have begun by then
_ACTIVE = "Becoming the active controller"
_METADATA = "__cluster_metadata-0/*.log"  # grows twice a second, also when nothing happens
_QUIET_POLLS = 3
_TIMEOUT_S = 60.0
_POLL_S = 0.1


def was_killed(data: Path) -> bool:
    """Did the last broker on these data end without a shutdown, and its session with it?"""
    return _open_session(data).is_file() or not (data / ".kafka_cleanshutdown").is_file()


def session_begins(data: Path) -> None:
    """A broker is going to be started on these data."""
    _open_session(data).touch()


def session_ended(data: Path) -> None:
    """It was told to shut down, and has."""
    _open_session(data).unlink(missing_ok=True)


def _open_session(data: Path) -> Path:
    return data.parent / "session-open"


def end_session_of_killed(java: Sequence[str], folder: Path, data: Path) -> None:
    """Runs the node as a controller until the killed broker is fenced.

    Args:
        java: command line up to the class.
        folder: for its files.

    Raises:
        KafkaUnavailable: it did not come so far.
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
    """Whether a controller's log says that it has fenced the broker, not only that it begins to."""
    found = _FENCING.search(told)
    return found is not None and _FENCED.format(epoch=found[1]) in told[found.end() :]


def _await_written(controller: subprocess.Popen[bytes], data: Path, deadline: float) -> None:
    """Until the controller's log has grown, and is quiet: what it had to write is in it."""
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
            f"Kafka was killed, and the session it had could not be ended within "
            f"{_TIMEOUT_S:.0f} s.",
            action=f"read {read}; the next start tries again.",
        )
