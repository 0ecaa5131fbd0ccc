"""The job of these tests, its input, and what its tables hold according to plain Python."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.support.jobs.saved_job import Event, SavedJob

__all__ = ["EXPECTED", "STATEMENTS", "Row", "events_of", "expected", "saved_job"]

Row = tuple[Any, ...]
START_MS = 1_700_000_000_000
STATEMENTS = """
CREATE STREAM sales (shop STRING KEY, item STRING, n BIGINT, price DECIMAL(8, 2), since TIMESTAMP)
  WITH (KAFKA_TOPIC='sales', VALUE_FORMAT='JSON', PARTITIONS=1);
CREATE TABLE names (shop STRING PRIMARY KEY, name STRING)
  WITH (KAFKA_TOPIC='names', VALUE_FORMAT='JSON', PARTITIONS=1);
CREATE TABLE totals AS SELECT shop, COUNT(*) AS many, SUM(n) AS total, SUM(n) * 2 AS twice
  FROM sales GROUP BY shop EMIT CHANGES;
CREATE TABLE by_item WITH (KEY_FORMAT='JSON') AS SELECT shop, item, MIN(n) AS least FROM sales
  GROUP BY shop, item EMIT CHANGES;
CREATE TABLE rich AS SELECT shop, MAX(price) AS dearest, LATEST_BY_OFFSET(since) AS last_since,
  COLLECT_LIST(item) AS items FROM sales GROUP BY shop EMIT CHANGES;
CREATE TABLE by_minute AS SELECT shop, COUNT(*) AS many FROM sales WINDOW TUMBLING (SIZE 1 MINUTE)
  GROUP BY shop EMIT CHANGES;
CREATE TABLE by_hop AS SELECT shop, COUNT(*) AS many FROM sales
  WINDOW HOPPING (SIZE 1 MINUTE, ADVANCE BY 30 SECONDS) GROUP BY shop EMIT CHANGES;
CREATE TABLE visits AS SELECT shop, COUNT(*) AS many FROM sales WINDOW SESSION (20 SECONDS)
  GROUP BY shop EMIT CHANGES;
CREATE TABLE busy AS SELECT shop, COUNT(*) AS many FROM sales GROUP BY shop
  HAVING COUNT(*) > 20 EMIT CHANGES;
CREATE TABLE one AS SELECT 'all' AS k, COUNT(*) AS many FROM sales GROUP BY 'all' EMIT CHANGES;
CREATE TABLE `Lower` AS SELECT shop, COUNT(*) AS `many` FROM sales GROUP BY shop EMIT CHANGES;
CREATE TABLE last_minute AS SELECT shop, COUNT(*) AS many FROM sales
  WINDOW TUMBLING (SIZE 1 MINUTE) GROUP BY shop EMIT FINAL;
CREATE TABLE named AS SELECT t.shop AS shop, t.many, m.name FROM totals t
  JOIN names m ON t.shop = m.shop;
CREATE STREAM large AS SELECT shop, n FROM sales WHERE n > 90;
"""


def events_of(count: int, seed: int) -> list[Event]:
    """Sales in the order of their times, which are milliseconds to seconds apart."""
    rng, made, time_ms = random.Random(seed), [], START_MS
    for _ in range(count):
        time_ms += rng.randrange(3_000)
        value = {
            "ITEM": rng.choice(["tea", "jam", "Öl", ""]),
            "N": rng.randrange(-5, 100),
            "PRICE": rng.randrange(100_000) / 100,
            "SINCE": time_ms - 86_400_000 * rng.randrange(1_000),
        }
        made.append(Event(f"s{rng.randrange(25)}", value, time_ms))
    return made


def saved_job(folder: Path, events: Sequence[Event], batches: int = 4) -> SavedJob:
    """The job after all events."""
    job = SavedJob(folder, STATEMENTS)
    size = -(-len(events) // batches)
    for start in range(0, len(events), size):
        job.feed(events[start : start + size])
    return job


def _grouped(
    events: Iterable[Event], key: Callable[[Event], Row], row: Callable[[list[Event]], Row]
) -> list[Row]:
    groups: dict[Row, list[Event]] = defaultdict(list)
    for event in events:
        groups[key(event)].append(event)
    return [(*k, *row(each), each[-1].time_ms) for k, each in groups.items()]


def _shop(event: Event) -> Row:
    return (event.key,)


def _minute(event: Event) -> Row:
    start = event.time_ms - event.time_ms % 60_000
    return (event.key, start, start + 60_000)


def _hops(events: Iterable[Event]) -> list[Row]:
    """Each minute that begins at a full one, and each that begins half a minute later."""
    moved = [Event(e.key, e.value, e.time_ms - 30_000) for e in events]
    late = _grouped(moved, _minute, _counted)
    later = [(k, start + 30_000, end + 30_000, n, t + 30_000) for k, start, end, n, t in late]
    return _grouped(events, _minute, _counted) + later


def _counted(events: list[Event]) -> Row:
    return (len(events),)


def _totals(events: list[Event]) -> Row:
    total = sum(e.value["N"] for e in events)
    return len(events), total, total * 2


def _rich(events: list[Event]) -> Row:
    dearest = max(Decimal(f"{e.value['PRICE']:.2f}") for e in events)
    last_since = datetime.fromtimestamp(events[-1].value["SINCE"] / 1000, UTC)
    return dearest, last_since, [e.value["ITEM"] for e in events]


def _visits(events: Iterable[Event]) -> list[Row]:
    open_: dict[str, list[int]] = {}
    closed: list[Row] = []
    for event in events:
        visit = open_.get(event.key)
        if visit is None or event.time_ms - visit[1] > 20_000:
            if visit is not None:
                closed.append((event.key, *visit, visit[1]))
            visit = open_[event.key] = [event.time_ms, event.time_ms, 0]
        visit[1], visit[2] = event.time_ms, visit[2] + 1
    return closed + [(key, *visit, visit[1]) for key, visit in open_.items()]


EXPECTED: dict[str, Callable[[Sequence[Event]], list[Row]]] = {
    "TOTALS": lambda events: _grouped(events, _shop, _totals),
    "BY_ITEM": lambda events: _grouped(
        events, lambda e: (e.key, e.value["ITEM"]), lambda each: (min(e.value["N"] for e in each),)
    ),
    "RICH": lambda events: _grouped(events, _shop, _rich),
    "BY_MINUTE": lambda events: _grouped(events, _minute, _counted),
    "BY_HOP": _hops,
    "VISITS": _visits,
    "BUSY": lambda events: [r for r in _grouped(events, _shop, _counted) if r[1] > 20],
    "ONE": lambda events: _grouped(events, lambda _: ("all",), _counted),
    "Lower": lambda events: _grouped(events, _shop, _counted),
}


def expected(table: str, events: Sequence[Event]) -> list[Row]:
    """The rows of a table, sorted: key, window, values, ROWTIME."""
    return sorted(EXPECTED[table](events))
