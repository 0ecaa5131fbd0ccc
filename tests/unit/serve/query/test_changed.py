"""Which part of a change a push query looks at, and whether it must know what was there before."""

from __future__ import annotations

from bisect import bisect_left

import pytest

from holdfast.config.settings import ServeSettings
from holdfast.serve.contract import Change
from holdfast.serve.query.changed import narrowed, needs_old
from holdfast.serve.query.options import Options
from holdfast.serve.query.plans import Plan, Plans
from holdfast.serve.workers.pool import Interrupt, Workers
from tests.support.serve.served import DictCatalog

SCRIPT = """
CREATE STREAM s (id STRING, region STRING, a BIGINT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');
CREATE TABLE plain AS SELECT id, COUNT(*) AS n FROM s GROUP BY id EMIT CHANGES;
CREATE TABLE pairs WITH (KEY_FORMAT='JSON') AS SELECT id, region, COUNT(*) AS n
  FROM s GROUP BY id, region EMIT CHANGES;
CREATE TABLE often AS SELECT id, COUNT(*) AS n FROM s GROUP BY id HAVING COUNT(*) > 1 EMIT CHANGES;
CREATE TABLE hourly AS SELECT id, COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 1 HOUR)
  GROUP BY id EMIT CHANGES;
CREATE TABLE visits AS SELECT id, COUNT(*) AS n FROM s WINDOW SESSION (1 MINUTE)
  GROUP BY id EMIT CHANGES;
"""
_WORKERS = Workers(1, 1 << 30, timeout_s=30.0)


def planned(select: str) -> Plan:
    plans = Plans(DictCatalog(SCRIPT), ServeSettings(), _WORKERS)
    sql = f"SELECT * FROM {select} EMIT CHANGES;"
    return plans.made(sql, Options(), lambda _: True, Interrupt())[0]


def change(keys: list[bytes]) -> Change:
    return Change(0, keys, [b"new " + k for k in keys], 7, [b"old " + k for k in keys])


def kept(select: str, keys: list[bytes]) -> list[bytes]:
    plan = planned(select)
    assert plan.within is not None
    part = narrowed(change(keys), plan.within.ranges)
    assert part.rows == [b"new " + k for k in part.keys]
    assert part.old == [b"old " + k for k in part.keys]
    assert part.position == 7
    return part.keys


KEYS = [b"a", b"ab", b"b", b"c", b"d"]


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("id = 'ab'", [b"ab"]),
        ("id = 'no'", []),
        ("id IN ('d', 'a') AND n > 3", [b"a", b"d"]),
        ("id > 'a' AND id < 'c' OR id = 'b'", [b"ab", b"b"]),
        ("id >= 'a'", KEYS),
        ("id = 'a' AND id = 'b'", []),
    ],
)
def test_keys_that_are_named(where: str, found: list[bytes]) -> None:
    part = kept(f"plain WHERE {where}", KEYS)
    assert [k for k in part if k in found] == found  # ranges may hold a little more
    assert len(part) <= len(found) + 2


@pytest.mark.parametrize(
    ("select", "exact"),
    [
        ("plain WHERE id = 'a' OR id IN ('b', 'c')", True),
        ("plain WHERE id = 'a' AND n > 1", False),
        ("plain WHERE id > 'a'", False),
        ("hourly WHERE id = 'a'", False),
    ],
)
def test_rows_of_keys_that_are_named_are_not_judged_again(select: str, exact: bool) -> None:
    plan = planned(select)
    assert plan.within is not None
    assert (plan.within.exact, plan.evaluation.looks_only_at((), plan.table.schema())) == (
        exact, exact,
    )  # fmt: skip


def test_every_window_of_a_key_that_is_named() -> None:
    keys = sorted(k + at.to_bytes(8, "big") for k in KEYS for at in (0, 3_600_000))
    start = bisect_left(keys, b"ab\0")
    assert set(kept("hourly WHERE id = 'ab' AND n > 1", keys)) >= set(keys[start : start + 2])
    assert len(kept("hourly WHERE id = 'ab'", keys)) <= 4


@pytest.mark.parametrize(
    "select",
    ["plain", "plain WHERE n > 1", "plain WHERE id = 'a' OR n > 1", "pairs WHERE id = 'a'",
     "visits WHERE id = 'a'"],
)  # fmt: skip
def test_any_key_may_pass(select: str) -> None:
    assert planned(select).within is None


@pytest.mark.parametrize(
    ("select", "needed"),
    [
        ("plain", False),
        ("plain WHERE id > 'b' AND id <> 'c'", False),
        ("plain WHERE id > 'b' AND n > 1", True),
        ("hourly WHERE WINDOWSTART > 5 AND WINDOWEND < 9", False),
        ("hourly WHERE ROWTIME > 5", True),
        ("often", True),
    ],
)
def test_what_was_there_before_matters_where_a_stored_row_may_leave(
    select: str, needed: bool
) -> None:
    plan = planned(select)
    assert needs_old(plan.table, plan.evaluation) is needed
