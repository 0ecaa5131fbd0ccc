"""After a single broker was killed: its session must end before it starts again.

Until its controller has noticed that a killed broker is gone, the broker that starts again finds
itself leader of everything in the metadata.  Its transaction coordinator goes on with what it
finds; then the old session ends, for a moment no partition has a leader, and Kafka drops the
commit and abort markers that wait for one ("these partitions are likely deleted already and hence
can be skipped", KAFKA-20734).  The next transaction of such a producer then commits what was
aborted (ADR 9).

So the node starts as a controller alone first, until that has fenced the old broker.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from holdfast.errors import KafkaUnavailable
from holdfast.local.broker_files import controller_properties, log_config
from holdfast.local.probe import free_port

__all__ = ["end_session_of_killed", "was_killed"]

_SESSION_MS = 1_000
_FENCED = "Fencing broker 1 "
_FENCED_BEFORE_S = 4 * _SESSION_MS / 1000  # an active controller would have by then
_ACTIVE = "Becoming the active controller"
_TIMEOUT_S = 60.0
_POLL_S = 0.1


def was_killed(data: Path) -> bool:
    """Did the last broker on these data end without a shutdown?  Kafka leaves a file at one."""
    return not (data / ".kafka_cleanshutdown").is_file()


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
        _await_fencing(controller, log)
    finally:
        controller.terminate()
        controller.wait(_TIMEOUT_S)


def _await_fencing(controller: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _TIMEOUT_S
    active_at = 0.0
    while True:
        told = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
        active_at = active_at or (time.monotonic() if _ACTIVE in told else 0.0)
        if _FENCED in told or (active_at and time.monotonic() > active_at + _FENCED_BEFORE_S):
            return
        if controller.poll() is not None or time.monotonic() >= deadline:
            raise KafkaUnavailable(
                f"Kafka was killed, and the session it had could not be ended within "
                f"{_TIMEOUT_S:.0f} s.",
                action=f"read {log}.",
            )
        time.sleep(_POLL_S)
