"""One function per anomaly of a table's values: each turns evidence into a finding.

A difference is `invalid` unless a known reason makes both answers right: doubtful input makes it
`unknown`, dropped late records make it `valid` where the numbers add up (see `late`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from holdfast.judge.checkers.checking import Checker, finding, unjudged
from holdfast.judge.checkers.late import (
    Excuse,
    beyond_counts,
    doubt,
    explained,
    lacks_records,
    missing_records,
)
from holdfast.judge.checkers.places import (
    changelog_agrees,
    changelog_rows,
    dead_letters_agree,
    elements_agree,
    group_agrees,
    hanging_transactions,
    markers_agree,
    markers_go_on,
)
from holdfast.judge.evidence import TableEvidence
from holdfast.judge.values import Key, Match, Row, same, show_key
from holdfast.judge.verdict import Finding, Verdict

__all__ = [
    "TABLE_CHECKERS",
    "diverged_values",
    "duplicated_updates",
    "late_is_possible",
    "late_records",
    "lost_keys",
    "phantom_keys",
    "sink_history_legal",
    "sink_times",
    "vacuous",
]


def lost_keys(table: TableEvidence) -> Finding:
    """Keys that follow from the input but are not in the table."""
    if table.expected is None:
        return unjudged("lost_keys", table.unjudged)
    lost = [k for k in table.expected if k not in table.history.rows]
    fact = f"{len(lost)} of {len(table.expected)} expected keys are missing"
    excuse = explained(table, len(lost)) if lost else None
    return _differences("lost_keys", table, map(show_key, lost), fact, excuse)


def phantom_keys(table: TableEvidence) -> Finding:
    """Keys in the table that do not follow from the input; no dropped record explains one."""
    expected = table.expected
    if expected is None:
        return unjudged("phantom_keys", table.unjudged)
    phantom = [k for k in table.history.rows if k not in expected and not _left_behind(table, k)]
    fact = f"{len(phantom)} of {len(table.history.rows)} keys come from no input record"
    return _differences("phantom_keys", table, map(show_key, phantom), fact)


def diverged_values(table: TableEvidence) -> Finding:
    """Keys on both sides whose values differ: compared exactly, doubles to 1e-9."""
    if table.expected is None:
        return unjudged("diverged_values", table.unjudged)
    shared = [k for k in table.expected if k in table.history.rows]
    different = {k: found for k in shared if (found := _different(table, k, table.expected[k]))}
    fact = f"{len(different)} of {len(shared)} compared rows differ"
    wrong = [text for k, text in different.items() if not lacks_records(table, k)]
    wrong += filter(None, (_differs_from_all(table, k, rows) for k, rows in table.first.items()))
    if wrong:
        return _differences("diverged_values", table, wrong, fact)
    excuse = explained(table, len(different)) if different else None
    if excuse is not None and excuse.verdict is Verdict.VALID:
        excuse = beyond_counts(table, different.keys() - table.first.keys()) or excuse
    return _differences("diverged_values", table, different.values(), fact, excuse)


def late_records(table: TableEvidence) -> Finding:
    """Windows lack exactly as many records as were dropped as late."""
    name = "late_records"
    if not table.windowed or table.dropped_late is None:
        fact = "no count of late records" if table.windowed else "no windows, nothing is late"
        return Finding(name, Verdict.VALID, fact)
    missing = missing_records(table)
    if missing is None:
        fact = f"{table.dropped_late} records were dropped; no COUNT(*) column shows where"
        return Finding(name, Verdict.VALID, fact)
    fact = f"{missing} records are missing from windows, {table.dropped_late} were dropped as late"
    if missing == table.dropped_late:
        return Finding(name, Verdict.VALID, fact)
    return _differences(name, table, ["the two numbers must be equal"], fact)


def late_is_possible(table: TableEvidence) -> Finding:
    """No more records were dropped as late than can be late: any others are lost."""
    name, dropped, most = "late_is_possible", table.dropped_late, table.late_most
    if most is None or dropped is None:
        return Finding(name, Verdict.VALID, "nothing was dropped that could be judged by the input")
    fact = f"{dropped} records were dropped as late, at most {most} can have come late"
    if dropped <= most:
        return Finding(name, Verdict.VALID, fact)
    excuse = doubt(table)
    return Finding(name, excuse.verdict, fact + excuse.words)


def sink_times(table: TableEvidence) -> Finding:
    """The last record of each key has the newest event time of the records in its row."""
    name = "sink_times"
    if not table.timed:
        return Finding(name, Verdict.VALID, "the sink's records have other times")
    bad = [
        f"{show_key(key)}: at {at} ms, must be {newest}"
        for key, newest in table.newest.items()
        if key in table.history.rows
        and newest >= 0
        and not _timely(table, newest, at := table.history.times[key])
    ]
    fact = f"{len(bad)} of {len(table.history.rows)} rows have another time than their records"
    return _differences(name, table, bad, fact)


def duplicated_updates(table: TableEvidence) -> Finding:
    """Every update of a key raises its COUNT(*); an update written twice does not."""
    history = table.history
    if not history.watched:
        fact = f"{history.updates} updates; no COUNT column shows their order"
        return Finding("duplicated_updates", Verdict.VALID, fact)
    bad = history.regressions
    fact = f"{len(bad)} of {history.updates} updates repeat or go back"
    examples = [f"{show_key(r.key)}: {r.column} {r.before} -> {r.after}" for r in bad]
    return finding("duplicated_updates", Verdict.INVALID if bad else Verdict.VALID, fact, examples)


def sink_history_legal(table: TableEvidence) -> Finding:
    """The sink never held more than the input allows: counts, and updates of each key."""
    name, history = "sink_history_legal", table.history
    if table.expected is None:
        return unjudged(name, table.unjudged)
    bad = [
        f"{show_key(key)}: written {times} times, the input has {table.records[key]} records of it"
        for key, times in history.updates_of.items()
        if times > table.records.get(key, times)
    ]
    for (key, column), highest in history.highest.items():
        most = table.expected.get(key, {}).get(column)
        if isinstance(most, int) and highest > most:
            bad.append(f"{show_key(key)}: {column} was {highest}, the input gives {most}")
    fact = f"{len(bad)} keys were written too often or held too much at some time"
    return _differences(name, table, bad, fact)


def vacuous(table: TableEvidence) -> Finding:
    """A comparison of nothing proves nothing."""
    if table.expected is None:
        return unjudged("vacuous", table.unjudged)
    compared = sum(1 for k in table.expected if k in table.history.rows)
    fact = f"{table.input_records} input records read, {compared} rows compared"
    nothing = not table.input_records or not compared
    return Finding("vacuous", Verdict.UNKNOWN if nothing else Verdict.VALID, fact)


TABLE_CHECKERS: tuple[Checker[TableEvidence], ...] = (
    lost_keys,
    phantom_keys,
    diverged_values,
    late_records,
    dead_letters_agree,
    late_is_possible,
    duplicated_updates,
    sink_history_legal,
    sink_times,
    changelog_agrees,
    changelog_rows,
    elements_agree,
    markers_agree,
    markers_go_on,
    group_agrees,
    hanging_transactions,
    vacuous,
)
"""The checkers of other tables; `stores_agree` joins them where the stores can be read."""


def _timely(table: TableEvidence, newest: int, at: int) -> bool:
    if table.windowed and table.dropped_late != 0:
        return at <= newest  # the newest record may have been late
    return at == newest or (newest == 0 and at == 1)  # Kafka's clients read 0 as no timestamp


def _differences(
    name: str,
    table: TableEvidence,
    examples: Iterable[str],
    fact: str,
    excuse: Excuse | None = None,
) -> Finding:
    shown = list(examples)
    if not shown:
        return Finding(name, Verdict.VALID, fact)
    excuse = excuse or doubt(table)
    return finding(name, excuse.verdict, fact + excuse.words, shown)


def _left_behind(table: TableEvidence, key: Key) -> bool:
    """Whether it is a group that all rows have left: compaction may hide such groups."""
    empty, row = table.empty, table.history.rows[key]
    return empty is not None and all(same(value, row.get(c)) for c, value in empty.items())


def _differs_from_all(table: TableEvidence, key: Key, rows: Sequence[Row]) -> str:
    """The difference from the first of several right rows; empty when it equals one of them."""
    differences = [_different(table, key, row) for row in rows]
    return differences[0] if all(differences) else ""


def _different(table: TableEvidence, key: Key, expected: Row) -> str:
    """The first column that differs, in words; empty when none does."""
    actual = table.history.rows[key]
    for column, value in expected.items():
        if not same(value, actual.get(column), table.matches.get(column, Match.EXACT)):
            found = f"{column} is {actual.get(column)!r}, recomputed {value!r}"
            return f"{show_key(key)}: {found}"
    return ""
