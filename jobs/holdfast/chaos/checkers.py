"""One function per anomaly of a table: evidence in, finding out.

A difference is `invalid` unless something known makes both answers right (late records that
may have been dropped, doubtful input): then it is `unknown`, never `valid`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from holdfast.chaos.evidence import (
    EXAMPLES_MAX,
    Key,
    Match,
    OpenTransaction,
    StreamEvidence,
    TableEvidence,
    same,
    show_key,
)
from holdfast.chaos.verdict import Finding, Verdict

__all__ = [
    "TABLE_CHECKERS",
    "changelog_agrees",
    "diverged_values",
    "duplicated_updates",
    "hanging_transactions",
    "judge",
    "lost_keys",
    "markers_agree",
    "open_finding",
    "phantom_keys",
    "vacuous",
]

E = TypeVar("E", TableEvidence, StreamEvidence)
Checker = Callable[[E], Finding]


def judge(evidence: E, checkers: Sequence[Checker[E]]) -> tuple[Finding, ...]:
    """Every checker's finding; one that crashes found nothing, so its verdict is unknown."""
    findings = []
    for checker in checkers:
        try:
            findings.append(checker(evidence))
        except Exception as error:  # noqa: BLE001 - a broken checker must not hide the others
            fact = f"the checker crashed: {type(error).__name__}: {error}"
            findings.append(Finding(checker.__name__, Verdict.UNKNOWN, fact))
    return tuple(findings)


def lost_keys(table: TableEvidence) -> Finding:
    """Keys the input has and the table does not."""
    if table.expected is None:
        return _unjudged("lost_keys", table)
    lost = [k for k in table.expected if k not in table.history.rows]
    fact = f"{len(lost)} of {len(table.expected)} expected keys are missing"
    return _differences("lost_keys", table, lost, fact)


def phantom_keys(table: TableEvidence) -> Finding:
    """Keys the table has and the input does not: no dropped record explains one."""
    expected = table.expected
    if expected is None:
        return _unjudged("phantom_keys", table)
    phantom = [k for k in table.history.rows if k not in expected]
    fact = f"{len(phantom)} of {len(table.history.rows)} keys come from no input record"
    return _differences("phantom_keys", table, phantom, fact, late_explains=False)


def diverged_values(table: TableEvidence) -> Finding:
    """Keys on both sides whose values differ: exact, but doubles to 1e-9."""
    if table.expected is None:
        return _unjudged("diverged_values", table)
    name, compared = "diverged_values", 0
    examples: list[str] = []
    excess: list[str] = []
    for key, row in table.expected.items():
        actual = table.history.rows.get(key)
        if actual is None:
            continue
        compared += 1
        for c, v in row.items():
            if not same(v, actual.get(c), table.matches.get(c, Match.EXACT)):
                examples.append(_difference(key, c, v, actual.get(c)))
                excess += filter(None, [_too_many(table, key)])
                break
    fact = f"{len(examples)} of {compared} compared rows differ"
    if excess:
        return _differences(name, table, excess, fact, late_explains=False)
    return _differences(name, table, examples, fact)


def duplicated_updates(table: TableEvidence) -> Finding:
    """Every update of a key raises its COUNT(*); an update written twice does not."""
    history = table.history
    if not history.watched:
        fact = f"{history.updates} updates; no COUNT column shows their order"
        return Finding("duplicated_updates", Verdict.VALID, fact)
    bad = history.regressions
    fact = f"{len(bad)} of {history.updates} updates repeat or go back"
    examples = [f"{show_key(r.key)}: {r.column} {r.before} -> {r.after}" for r in bad]
    return _finding("duplicated_updates", Verdict.INVALID if bad else Verdict.VALID, fact, examples)


def changelog_agrees(table: TableEvidence) -> Finding:
    """The changelog holds as many live rows as the input has groups."""
    name, rows = "changelog_agrees", table.changelog_rows
    if rows is None:
        return Finding(name, Verdict.UNKNOWN, "the changelog was not read")
    if table.expected is None:
        return _unjudged(name, table)
    least, most = table.changelog_rows_min, table.changelog_rows_max
    span = f"{least}" if least == most else f"{least} to {most}"
    fact = f"{rows} live rows in the changelog, {span} expected"
    if least <= rows <= most:
        return Finding(name, Verdict.VALID, fact)
    excuse = _doubt(table) if rows > most else _excuse(table, least - rows)
    return Finding(name, Verdict.UNKNOWN if excuse else Verdict.INVALID, fact + excuse)


def markers_agree(table: TableEvidence) -> Finding:
    """Every state partition has taken in the input to the same end."""
    fact = f"{len(table.unlevel)} state partitions whose commit marker is not at the input's end"
    verdict = Verdict.INVALID if table.unlevel else Verdict.VALID
    return _finding("markers_agree", verdict, fact, table.unlevel)


def hanging_transactions(table: TableEvidence) -> Finding:
    """No transaction stays open once the job has caught up."""
    return open_finding(table.open_transactions)


def vacuous(table: TableEvidence) -> Finding:
    """A comparison of nothing proves nothing."""
    if table.expected is None:
        return _unjudged("vacuous", table)
    compared = sum(1 for k in table.expected if k in table.history.rows)
    fact = f"{table.input_records} input records read, {compared} rows compared"
    nothing = not table.input_records or not compared
    return Finding("vacuous", Verdict.UNKNOWN if nothing else Verdict.VALID, fact)


TABLE_CHECKERS: tuple[Checker[TableEvidence], ...] = (
    lost_keys,
    phantom_keys,
    diverged_values,
    duplicated_updates,
    changelog_agrees,
    markers_agree,
    hanging_transactions,
    vacuous,
)


def open_finding(open_transactions: Sequence[OpenTransaction]) -> Finding:
    """The finding for topic partitions whose last stable offset stays behind their end."""
    fact = f"{len(open_transactions)} topic partitions with an open transaction"
    examples = [
        f"{t.topic}-{t.partition}: stable to {t.last_stable_offset}, end {t.end_offset}"
        for t in open_transactions
    ]
    verdict = Verdict.INVALID if open_transactions else Verdict.VALID
    return _finding("hanging_transactions", verdict, fact, examples)


def _differences(
    name: str,
    table: TableEvidence,
    examples: Sequence[Key | str],
    fact: str,
    *,
    late_explains: bool = True,
) -> Finding:
    if not examples:
        return Finding(name, Verdict.VALID, fact)
    shown = [e if isinstance(e, str) else show_key(e) for e in examples[:EXAMPLES_MAX]]
    excuse = _excuse(table, len(examples)) if late_explains else _doubt(table)
    return _finding(name, Verdict.UNKNOWN if excuse else Verdict.INVALID, fact + excuse, shown)


def _excuse(table: TableEvidence, differences: int) -> str:
    """Why records may be missing from so many rows, in words; empty when nothing explains it."""
    if table.windowed and table.dropped_late is None:
        return "; nobody can say how many late records were dropped"
    if table.windowed and table.dropped_late and table.dropped_late >= differences:
        return f"; {table.dropped_late} late records were dropped, which may explain it"
    return _doubt(table)


def _doubt(table: TableEvidence) -> str:
    return f"; {table.doubtful}" if table.doubtful else ""


def _difference(key: Key, column: str, expected: Any, actual: Any) -> str:
    return f"{show_key(key)}: {column} is {actual!r}, recomputed {expected!r}"


def _too_many(table: TableEvidence, key: Key) -> str:
    """A count above the recomputed one: no dropped record explains that."""
    expected, actual = (table.expected or {})[key], table.history.rows[key]
    for column in table.counts:
        if isinstance(actual.get(column), int) and actual[column] > expected[column]:
            return _difference(key, column, expected[column], actual[column])
    return ""


def _unjudged(name: str, table: TableEvidence) -> Finding:
    return Finding(name, Verdict.UNKNOWN, table.unjudged or "the table was not recomputed")


def _finding(name: str, verdict: Verdict, fact: str, examples: Iterable[str]) -> Finding:
    return Finding(name, verdict, fact, tuple(list(examples)[:EXAMPLES_MAX]))
