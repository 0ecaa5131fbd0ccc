from __future__ import annotations

import json
import time

import pytest

from holdfast.client import Changes
from holdfast.client.protocol import Tries, decoder, result_of
from holdfast.errors import PositionLost, Refused, Retriable, StoreBehind
from holdfast.serve.contract import PartitionState
from holdfast.serve.http import forms
from holdfast.types.freshness import age_s


def test_nested_types_keep_their_parts_apart() -> None:
    kinds = ["MAP<STRING, ARRAY<DATE>>", "STRUCT<A STRUCT<B DECIMAL(4, 2), C BYTES>, D INTEGER>"]
    decode = decoder(kinds)
    row = decode([{"x": ["2020-01-02", None]}, {"A": {"B": 1.25, "C": None}, "D": 3}])
    assert str(row) == (
        "({'x': [datetime.date(2020, 1, 2), None]}, "
        "{'A': {'B': Decimal('1.25'), 'C': None}, 'D': 3})"
    )
    assert decoder(["STRING", "BIGINT"])(["a", 1]) == ("a", 1)


@pytest.mark.parametrize("off_s", [-600.0, 600.0])
def test_how_old_an_answer_is_does_not_depend_on_whose_clock_is_right(off_s: float) -> None:
    theirs = int((time.time() + off_s) * 1000)
    state = PartitionState(0, 5, 7, checked_ms=theirs - 3_000)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(time, "time", lambda: theirs / 1000)
        told = forms.partitions({0: state, 1: PartitionState(1, 5, 5)})
    body = {"columns": [], "rows": [], "partitions": told}
    known, unknown = result_of(json.dumps(body).encode()).partitions.values()
    assert age_s(known.checked_ms) == pytest.approx(3.0, abs=1)
    assert (known.lag, unknown.checked_ms) == (2, 0)


def test_a_server_of_an_older_version_tells_its_own_time() -> None:
    told = {"0": {"position": 5, "lag": 0, "checked_ms": 17}}
    body = {"columns": [], "rows": [], "partitions": told}
    assert result_of(json.dumps(body).encode()).partitions[0].checked_ms == 17


def test_rows_wait_for_the_token_that_resumes_after_them() -> None:
    changes = Changes()
    head = '{"columns":[{"name":"A","type":"BIGINT"}]}'
    assert list(changes.line(head)) == []
    assert list(changes.line("[1]")) == []
    assert list(changes.line("")) == []
    assert [r["A"] for r in changes.line('{"resume":"t1"}')] == [1]
    assert list(changes.line("[2]")) == []
    changes.connected()  # the connection was lost: the row comes again
    assert list(changes.line("[2]")) == []
    assert list(changes.line("[3]")) == []
    rows = list(changes.line('{"resume":"t3","gone":[1]}'))
    assert [(r["A"], r.gone) for r in rows] == [(2, False), (3, True)]
    with pytest.raises(Retriable, match="before the query's end"):
        changes.check_end()
    assert list(changes.line("[4]")) == []
    assert list(changes.line("[5]")) == []
    assert list(changes.line('{"gone":[0]}')) == []  # a part that cannot be resumed behind
    assert list(changes.line("[6]")) == []
    assert list(changes.line("[7]")) == []
    rows = list(changes.line('{"resume":"t7","gone":[1]}'))
    assert [(r["A"], r.gone) for r in rows] == [(4, True), (5, False), (6, False), (7, True)]
    assert changes.token == "t7"
    assert list(changes.line('{"end":true}')) == []
    changes.check_end()


def test_what_cannot_be_resumed_is_not_given_twice() -> None:
    changes = Changes()
    list(changes.line('{"columns":[{"name":"A","type":"BIGINT"}]}'))
    list(changes.line("[1]"))
    assert len(list(changes.line('{"resume":""}'))) == 1
    with pytest.raises(PositionLost, match="after 1 rows"):
        changes.connected()


def test_servers_are_tried_in_turn_until_time_is_over() -> None:
    now = [0.0]
    line = ["a", "b"]
    tries = Tries(line, 10.0, lambda: now[0])
    assert (tries.server, tries.failed(OSError()), tries.server) == ("a", 0.0, "b")
    assert tries.failed(StoreBehind("x")) > 0  # a whole round failed
    assert line == ["a", "b"]
    with pytest.raises(Refused):
        tries.failed(Refused("asking again does not help"))
    now[0] = 11.0
    with pytest.raises(StoreBehind):
        tries.failed(StoreBehind("x"))
    with pytest.raises(Retriable, match="no server answered in 10 s, asked 4 times"):
        tries.failed(OSError("gone"))
    tries.went_well()
    assert tries.failed(OSError()) >= 0


def test_a_query_that_was_lost_before_its_first_change_goes_on_from_where_it_began() -> None:
    changes = Changes()
    assert list(changes.line('{"columns":[],"resume":"t0"}')) == []
    assert list(changes.line("[1]")) == []
    changes.connected()
    assert changes.token == "t0"
