"""Says in words how a statement differs from the one that wrote its rows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from holdfast.types.statements.topology import AggregateStep, Query
from holdfast.types.words import listed, shortened

__all__ = ["changed", "columns_differ", "results_differ", "state_differs"]

_IDENTIFIER = re.compile(r'["`](\w+)["`]')
_UNIT_MS = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1_000}
_SHOWN_MAX = 120  # characters of an expression


def state_differs(canonical: str, query: Query) -> list[str]:
    """How the statement that stored rows differs from the query; never empty.

    Whoever calls this has found a difference: words that do not show it must not hide it.

    Args:
        canonical: of the statement, see `Query.canonical`; another text than the query's.
    """
    now = json.loads(query.canonical())
    try:
        before = json.loads(canonical)
    except json.JSONDecodeError:
        before = None
    if not isinstance(before, dict):
        return [f"it was {shortened(canonical, _SHOWN_MAX)}, it is another statement now"]
    found = [*_read_differs(before, now), *_aggregates_differ(before, now)]
    rest = [p for p in {**before, **now} if p not in _TOLD and before.get(p) != now.get(p)]
    found += [f"{part} {changed(before.get(part), now.get(part))}" for part in rest]
    return found or [f"it was {canonical}, it is now {query.canonical()}"]


_TOLD = ("source", "topic", "filter", "keys", "window", "aggregates")


def _read_differs(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """The differences of FROM, WHERE, GROUP BY and WINDOW."""
    if _of(before, "source", "topic") != _of(now, "source", "topic"):
        old, new = ("{} (topic {})".format(*_of(each, "source", "topic")) for each in (before, now))
        yield f"it read {old}, it reads {new}"
    if before.get("filter") != now.get("filter"):
        yield _clause("WHERE", before.get("filter"), now.get("filter"))
    if before.get("keys") != now.get("keys"):
        old, new = (listed([_text(k) for k, _ in each.get("keys", ())]) for each in (before, now))
        kinds = (listed([kind for _, kind in each.get("keys", ())]) for each in (before, now))
        words = (old, new) if old != new else tuple(f"{old} {kind}" for kind in kinds)
        yield "GROUP BY was {}, is {}".format(*words)
    if before.get("window") != now.get("window"):
        yield f"WINDOW was {_window(before.get('window'))}, is {_window(now.get('window'))}"


def _of(parts: Mapping[str, Any], *names: str) -> list[Any]:
    return [parts.get(name) for name in names]


def _window(parts: list[Any] | str | None) -> str:
    """The window of an aggregate; that of a join is a text already."""
    if parts is None or isinstance(parts, str):
        return shortened(parts or "none", _SHOWN_MAX)
    kind, size_ms, advance_ms = parts
    advance = f", ADVANCE BY {_time(advance_ms)}" if kind == "HOPPING" else ""
    return f"{kind} ({_time(size_ms)}{advance})"


def _time(ms: int) -> str:
    """A time in the largest unit that divides it."""
    fits = ((ms // unit_ms, unit) for unit, unit_ms in _UNIT_MS.items() if ms % unit_ms == 0)
    count, unit = next(fits, (ms, "milliseconds"))
    return f"{count} {unit.removesuffix('s') if count == 1 else unit}"


def _aggregates_differ(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    old, new = before.get("aggregates") or [], now.get("aggregates") or []
    if old == new:
        return
    added, gone = ([a for a in one if a not in two] for one, two in ((new, old), (old, new)))
    retyped = [(a, b) for a in gone for b in added if a[:3] == b[:3]]
    for a, b in retyped:
        yield f"{_aggregate(a)} was {a[3]}, is {b[3]}"
    for words, found in (("new", added), ("gone", gone)):
        rest = [each for each in found if not any(each in pair for pair in retyped)]
        if rest:
            yield _are(words, [_aggregate(each) for each in rest])
    if not added and not gone:
        both = (listed(map(_aggregate, each)) for each in (old, new))
        yield "the aggregates were {}, are {}".format(*both)


def _aggregate(parts: Sequence[Any]) -> str:
    """An aggregate as it is written: SUM(AMOUNT)."""
    function, arguments, literals, _ = parts
    given = [*map(_text, arguments), *map(str, literals)]
    return f"{function}({', '.join(given) or '*'})"


def _text(expression: str | None) -> str:
    """An expression for people: without the engine's quotes and guards, and not too long."""
    if expression is None:
        return "none"
    plain = _IDENTIFIER.sub(r"\1", expression)
    while plain.startswith("TRY(") and plain.endswith(")"):
        plain = plain[len("TRY(") : -1]
    if plain.startswith("(") and plain.endswith(")") and ")" not in plain[1:-1]:
        plain = plain[1:-1]
    return shortened(plain, _SHOWN_MAX)


def _clause(name: str, before: str | None, now: str | None) -> str:
    return f"{name} was {_text(before)}, is {_text(now)}"


def _are(words: str, names: Sequence[str]) -> str:
    return f"{listed(names)} {'is' if len(names) == 1 else 'are'} {words}"


def columns_differ(before: Sequence[Sequence[str]], now: Sequence[Sequence[str]]) -> str:
    """How lists of columns (name, type) differ; empty if they do not."""
    if list(before) == list(now):
        return ""
    old: dict[str, str] = dict(map(_pair, before))
    new: dict[str, str] = dict(map(_pair, now))
    told = [f"{n} was {old[n]}, is {new[n]}" for n in old if n in new and old[n] != new[n]]
    for words, names in (("new", new.keys() - old.keys()), ("gone", old.keys() - new.keys())):
        if names:
            told.append(_are(words, sorted(names)))
    return "; ".join(told) or f"they were {listed(old)}, are {listed(new)}"


def _pair(column: Sequence[str]) -> tuple[str, str]:
    name, kind = column
    return name, kind


def results_differ(
    before: Mapping[str, Any], now: Mapping[str, Any], query: Query, *, same_columns: bool
) -> list[str]:
    """How the SELECT list, HAVING and WHERE differ, for a statement that stores the same.

    Empty if they do not, or if only the expressions of columns do that differ themselves.

    Args:
        before, now: as `statement_facts` has them.
        same_columns: whether the columns are the same; else their expressions differ anyway.
    """
    if before == now:
        return []
    told = list(_results_told(before, now, query, same_columns=same_columns))
    if told or not same_columns:
        return told
    return [f"the SELECT list, WHERE or HAVING {changed(before, now)}"]


def _results_told(
    before: Mapping[str, Any], now: Mapping[str, Any], query: Query, *, same_columns: bool
) -> Iterator[str]:
    for part in ("having", "where"):
        if before.get(part) != now.get(part):
            old, new = (_with_aggregates(each.get(part), query) for each in (before, now))
            yield _clause(part.upper(), old, new)
    old, new = before.get("outputs", ()), now.get("outputs", ())
    if old == new or not same_columns:
        return
    columns = (*query.sink.key_columns, *query.sink.value_columns)
    names = [column.name for column in columns][-len(new) :]
    if not len(old) == len(new) == len(names):
        yield "the SELECT list computes the columns in another way"
        return
    for name, *both in zip(names, old, new, strict=True):
        if both[0] != both[1]:
            words = (_text(_with_aggregates(each, query)) for each in both)
            yield "{} in the SELECT list was {}, is {}".format(name, *words)


def _with_aggregates(expression: str | None, query: Query) -> str | None:
    """An expression over stored aggregates, with these as they are written."""
    step = query.step
    if expression is None or not isinstance(step, AggregateStep):
        return expression
    stored = step.fingerprint_parts()["aggregates"]
    assert isinstance(stored, list)
    for at, parts in enumerate(stored):
        expression = expression.replace(f'"__a{at}"', _aggregate(parts))
    return expression


def changed(before: Any, now: Any) -> str:
    """Any other difference between values of JSON, as "was …, is …"."""
    if isinstance(before, dict) and isinstance(now, dict):
        names = [k for k in {**before, **now} if before.get(k) != now.get(k)]
        parts = (f"{k} {changed(before.get(k), now.get(k))}" for k in names)
        return f"changed ({'; '.join(parts)})"
    old, new = (shortened(json.dumps(each), _SHOWN_MAX) for each in (before, now))
    return f"was {old}, is {new}"
