"""A client that is kept for long does not stay with what it remembers of the cluster."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from hypothesis import given
from hypothesis import strategies as st

import holdfast
from holdfast.errors import HoldfastError, KafkaUnavailable
from holdfast.transport import reader
from holdfast.transport.cluster import group_offsets
from holdfast.transport.cluster import retrying_admin as patient
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.cluster.retrying_admin import PatientClient
from holdfast.transport.errors import SETTLING
from holdfast.transport.reader import PartitionReader
from tests.simulation.clock import VirtualTime

CODES = st.sampled_from(sorted(SETTLING))
STALE = KafkaError.FENCED_LEADER_EPOCH
CLIENT = {"bootstrap.servers": "nowhere:1"}


class Cluster:
    """Answers only clients that were made after its last restart."""

    def __init__(self, code: int) -> None:
        self.code = code
        self.epoch = 0
        self.made = 0

    def restart(self) -> None:
        self.epoch += 1

    def client(self, *_: object) -> Any:
        """One that remembers the epoch it was made in."""
        self.made += 1
        epoch = self.epoch

        def answer(*_: object, **__: object) -> tuple[int, int]:
            if epoch < self.epoch:
                raise KafkaException(KafkaError(self.code))
            return 3, 7

        return SimpleNamespace(get_watermark_offsets=answer, ask=answer, close=lambda: None)


def asked(client: Any) -> Any:
    """The answer of the client that is there now."""
    return client.ask()


def ask_patiently(cluster: Cluster) -> Callable[[], tuple[int, int]]:
    kept = PatientClient(CLIENT, 30.0)
    return lambda: kept.ask(lambda: asked(kept.client), "asking")


def ask_bounds(cluster: Cluster) -> Callable[[], tuple[int, int]]:
    return PartitionReader(CLIENT, "t", 0).bounds


@pytest.mark.parametrize("kept", [ask_patiently, ask_bounds])
@given(code=CODES, restarts=st.integers(1, 3))
def test_a_kept_client_answers_again_after_every_restart(
    kept: Callable[[Cluster], Callable[[], tuple[int, int]]], code: int, restarts: int
) -> None:
    cluster = Cluster(code)
    with pytest.MonkeyPatch.context() as patch:
        clock = VirtualTime()
        patch.setattr(patient, "AdminClient", cluster.client)
        patch.setattr(reader, "Consumer", cluster.client)
        patch.setattr(patient, "time", clock)
        patch.setattr(reader, "time", clock)
        ask = kept(cluster)
        assert ask() == (3, 7)
        for _ in range(restarts):
            cluster.restart()
            began = clock.monotonic()
            assert ask() == (3, 7)
            assert clock.monotonic() - began < 5.0
        assert cluster.made == 1 + restarts, "one that answers is kept"


def test_an_error_that_stays_is_told_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patient, "AdminClient", lambda *_: None)
    clock = VirtualTime()
    monkeypatch.setattr(patient, "time", clock)
    kept, began = PatientClient(CLIENT, 30.0), clock.monotonic()

    def never() -> None:
        raise KafkaException(KafkaError(STALE))

    with pytest.raises(KafkaUnavailable, match="FENCED_LEADER_EPOCH"):
        kept.ask(never, "asking")
    assert 30.0 <= clock.monotonic() - began < 31.0


def test_consumers_that_are_asked_for_groups_are_not_kept_after_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Stale:
        made = 0

        def __init__(self, *_: object) -> None:
            Stale.made += 1

        def consume(self, *_: object) -> list[object]:
            return []

        def committed(self, *_: object, **__: object) -> None:
            raise KafkaException(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED))

    monkeypatch.setattr(group_offsets, "Consumer", Stale)
    monkeypatch.setattr(Admin, "describe", lambda *_: SimpleNamespace(partitions=1))
    admin = Admin(CLIENT)
    for asked in (1, 2):
        with pytest.raises(HoldfastError):
            admin.committed("g", "t")
        assert Stale.made == asked


def test_admin_clients_are_made_in_one_place() -> None:
    """Any other would have to learn by itself when to forget."""
    root = Path(holdfast.__file__).parent
    found = [
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        if re.search(r"^\s[^#\"]*\bAdminClient\(", path.read_text(encoding="utf-8"), re.MULTILINE)
        and "kafka.admin import KafkaAdminClient" not in path.read_text(encoding="utf-8")
    ]
    assert found == ["transport/cluster/retrying_admin.py"]
