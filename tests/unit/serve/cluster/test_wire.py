"""Messages between servers survive the wire unchanged, in pieces of any size."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import HoldfastError, NoHolder, PositionLost, Retriable
from holdfast.serve.cluster import wire
from holdfast.serve.contract import Change, Holding, Member, MemberState, PartitionState, Rows

STATE = PartitionState(3, 10, 12, 5, restoring=True, server="1", rows=-1, error="why")


def test_rows_changes_and_members_come_back() -> None:
    rows = Rows([b"k"], [b"\0"], {3: STATE})
    assert wire.to_rows(wire.unpack(wire.pack(wire.from_rows(rows)))) == rows
    change = Change(3, [b"a", b"b"], [b"1", None], 12, [None, b"0"], committed_ms=9)
    assert wire.to_change(wire.unpack(wire.pack(wire.from_change(change)))) == change
    holdings = (Holding("T", 3, STATE),)
    member = Member("1", "http://a:1", MemberState.STARTING, 7, holdings)
    assert wire.to_member(wire.unpack(wire.pack(wire.from_member(member)))) == member


@pytest.mark.parametrize("kind", [NoHolder, PositionLost])
def test_errors_come_back_as_what_they_were(kind: type[HoldfastError]) -> None:
    error = kind("the fact", cause="the cause", action="the action")
    again = wire.error_of(wire.unpack(wire.pack(wire.from_error(error))))
    assert type(again) is kind
    assert (again.fact, again.cause, again.action) == ("the fact", "the cause", "the action")


def test_an_error_of_a_newer_server_may_pass_by_itself() -> None:
    told = {"error": {"kind": "Unheard", "fact": "f", "cause": "", "action": ""}}
    assert type(wire.error_of(told)) is Retriable
    assert wire.error_of({"keys": []}) is None


@given(values=st.lists(st.text(max_size=40), max_size=8), size=st.integers(1, 30))
def test_a_stream_may_arrive_in_any_pieces(values: list[str], size: int) -> None:
    data = b"".join(wire.frame(value) + wire.ALIVE for value in values)

    async def pieces() -> AsyncIterator[bytes]:
        for at in range(0, len(data), size):
            yield data[at : at + size]

    async def read() -> list[str]:
        return [value async for value in wire.frames(pieces())]

    assert asyncio.run(read()) == values


def test_a_stream_that_is_cut_is_no_end() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield wire.frame("whole") + wire.frame("half")[:-1]

    async def read() -> list[str]:
        return [value async for value in wire.frames(pieces())]

    with pytest.raises(ValueError, match="ends inside a frame"):
        asyncio.run(read())
