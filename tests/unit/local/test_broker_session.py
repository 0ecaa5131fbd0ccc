"""When the session of a killed broker has ended, told by what its controller has written."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.local.broker_session import (
    fencing_is_known,
    session_begins,
    session_ended,
    was_killed,
)

LOADED = (
    "Replayed BrokerRegistrationChangeRecord modifying the registration for broker 1: "
    "BrokerRegistrationChangeRecord(brokerId=1, brokerEpoch=7, fenced=1, inControlledShutdown=0)\n"
)
FENCING = "Fencing broker 1 at epoch 9 because its session has timed out.\n"
OTHER = LOADED.replace("brokerEpoch=7", "brokerEpoch=90")
FENCED = LOADED.replace("brokerEpoch=7", "brokerEpoch=9")
UNFENCED = FENCED.replace("fenced=1", "fenced=-1")


@pytest.mark.parametrize(
    ("told", "known"),
    [
        ("", False),
        (LOADED, False),
        (LOADED + FENCING, False),
        (FENCED + FENCING, False),
        (FENCING + OTHER, False),
        (FENCING + UNFENCED, False),
        (LOADED + FENCING + FENCED, True),
    ],
)
def test_fencing_is_known_when_the_controller_has_it_in_memory(told: str, known: bool) -> None:
    assert fencing_is_known(told) is known


def test_only_a_shutdown_that_was_asked_for_ends_a_session(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    assert was_killed(data)
    clean = data / ".kafka_cleanshutdown"
    clean.touch()
    assert not was_killed(data), "as a home of the version before"
    session_begins(data)
    assert was_killed(data), "a start that failed has left the file"
    session_ended(data)
    assert not was_killed(data)
    clean.unlink()
    assert was_killed(data)
