"""Which servers there are, from what each is told at its start."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.errors import InvalidConfig
from holdfast.serve.cluster.members import Members, Plan
from holdfast.serve.cluster.peer import PeerSettings
from holdfast.serve.contract import MemberState, PartitionState, ServedTable
from holdfast.serve.tables import candidates
from holdfast.sql import compile_text


def test_addresses_are_listed_or_made_from_one() -> None:
    listed = Plan.of(1, 2, 2, "http://a:1, http://b:2/")
    assert listed.addresses == ("http://a:1", "http://b:2")
    made = Plan.of(2, 3, 2, "http://t-{id}.t-pods:8088")
    assert made.addresses == tuple(f"http://t-{n}.t-pods:8088" for n in range(3))
    assert (listed.ids, made.ids) == (["0", "1"], ["0", "1", "2"])


def test_there_are_no_more_copies_than_servers() -> None:
    plan = Plan.of(0, 1, 2, "http://a:1")
    assert plan.copies == 1
    assert plan.holders("T", 3) == ["0"]


class _Held:
    """A standby, as far as its members tell of it."""

    def __init__(self, table: ServedTable, partition: int, *, restoring: bool) -> None:
        self.table, self.partition = table, partition
        self._state = PartitionState(partition, 0, 0, restoring=restoring)

    def state(self) -> PartitionState:
        return self._state


def test_a_server_is_ready_once_it_has_its_share_and_stays_so() -> None:
    sql = """CREATE STREAM s (id STRING KEY, a BIGINT)
      WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', PARTITIONS=1);
    CREATE TABLE t AS SELECT id, COUNT(*) AS n FROM s GROUP BY id;"""
    table = candidates(compile_text(sql), "app").tables[0].made(2)
    held: list[Any] = []
    expected: dict[str, ServedTable] | None = None
    plan = Plan.of(0, 1, 1, "http://a:1")
    members = Members(plan, PeerSettings(), lambda: held, lambda: expected)
    assert members.myself().state is MemberState.STARTING  # nobody knows what there is to hold
    expected = {"T": table}
    held = [_Held(table, 0, restoring=False), _Held(table, 1, restoring=True)]
    assert members.myself().state is MemberState.STARTING
    held[1] = _Held(table, 1, restoring=False)
    assert members.myself().state is MemberState.READY
    held[1] = _Held(table, 1, restoring=True)  # a table that came later, or was made anew
    assert members.myself().state is MemberState.READY
    assert members.members()[0].holdings[1].state.restoring


@pytest.mark.parametrize(
    ("number", "servers", "copies", "peers"),
    [(2, 2, 1, "a,b"), (0, 2, 1, "a"), (0, 1, 0, "a"), (0, 1, 1, ""), (0, 3, 2, "a,b,c,d")],
)
def test_what_does_not_fit_is_refused(number: int, servers: int, copies: int, peers: str) -> None:
    with pytest.raises(InvalidConfig, match="do not fit each other"):
        Plan.of(number, servers, copies, peers)
