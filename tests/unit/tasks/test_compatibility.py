"""Which statement may go on with the rows of another one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.errors import IncompatibleStatement
from holdfast.sql import compile_text
from holdfast.tasks.compatibility import check_marker, state_fits
from holdfast.types.topology import Query
from tests.unit.state.changelog_model import marker

SOURCES = """\
CREATE STREAM a (k INT KEY, v INT) WITH (KAFKA_TOPIC='a', VALUE_FORMAT='JSON');
CREATE TABLE t (k INT PRIMARY KEY, v INT) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON');
"""
WINDOW = "FROM a WINDOW TUMBLING (SIZE 1 MINUTE)"


def query(rest: str, create: str = "CREATE") -> Query:
    return compile_text(f"{SOURCES}{create} TABLE o AS SELECT {rest};").queries[-1]


@pytest.mark.parametrize(
    ("before", "after", "fits", "when_replaced"),
    [
        ("k, SUM(v) s FROM a GROUP BY k", "k, SUM(v) s FROM a GROUP BY k", True, True),
        ("k, SUM(v) s FROM a GROUP BY k", "k, SUM(v) + 1 s FROM a GROUP BY k", True, True),
        ("k, SUM(v) s FROM a GROUP BY k", "k, SUM(v) s FROM a WHERE v > 1 GROUP BY k", False, True),
        ("k, SUM(v) s FROM a GROUP BY k", "k, MAX(v) s FROM a WHERE v > 1 GROUP BY k",
         False, False),
        (f"k, SUM(v) s {WINDOW} GROUP BY k", f"k, SUM(v) s {WINDOW} WHERE v > 1 GROUP BY k",
         False, False),
        ("v, COUNT(*) s FROM t GROUP BY v", "v, COUNT(*) s FROM t WHERE k > 1 GROUP BY v",
         True, True),  # the filter is before the changes, in the first of its queries
        ("* FROM t WHERE v > 1", "* FROM t WHERE v > 2", False, False),
    ],
)  # fmt: skip
def test_state_fits(before: str, after: str, fits: bool, when_replaced: bool) -> None:
    canonical = query(before).canonical()
    assert state_fits(canonical, query(after)) is fits
    assert state_fits(canonical, query(after, "create  or\nREPLACE")) is when_replaced


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({}, None),
        ({"application_id": "other"}, "app/{id}/3 holds a commit marker of other/{id}/3"),
        ({"query_id": "other"}, "app/{id}/3 holds a commit marker of app/other/3"),
        ({"state_partition": 2}, "app/{id}/3 holds a commit marker of app/{id}/2"),
        ({"state_partitions": 4}, "state.partitions was 4, is 8"),
        ({"partitioner": "other"}, "the partitioner was other"),
        ({"canonical": "other"}, "it was other, it is now"),
    ],
)
def test_a_marker_is_compared_with_where_it_was_found(
    changed: dict[str, object], told: str | None
) -> None:
    here = query("k, SUM(v) s FROM a GROUP BY k")
    mine = replace(marker(0), query_id=here.id, canonical=here.canonical())
    found = replace(mine, **changed)  # type: ignore[arg-type]
    if told is None:
        check_marker(found, here, 8, application_id="app", state_partition=3)
        check_marker(None, here, 8, application_id="app", state_partition=3)
        return
    with pytest.raises(IncompatibleStatement) as refused:
        check_marker(found, here, 8, application_id="app", state_partition=3)
    assert told.format(id=here.id) in refused.value.fact
