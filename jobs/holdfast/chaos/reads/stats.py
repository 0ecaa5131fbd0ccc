"""How reads went, in all and while each kind of fault was not yet recovered from."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from holdfast.chaos.history.strikes import Strike
from holdfast.chaos.reads.answers import Read, States
from holdfast.chaos.reads.checkers import strikes_during
from holdfast.judge.verdict import ReadStats, TableReads

__all__ = ["read_stats", "table_reads"]


def read_stats(reads: Sequence[Read], strikes: Sequence[Strike]) -> tuple[ReadStats, ...]:
    """First all reads, then the undisturbed ones, then those during each kind of fault.

    A read that went on during several faults is counted with each of their kinds.
    """
    kinds: defaultdict[str, list[Read]] = defaultdict(list)
    for read in reads:
        during = {strike.kind for strike in strikes_during(read, strikes)}
        for kind in during or {"undisturbed"}:
            kinds[kind].append(read)
    quiet = kinds.pop("undisturbed", [])
    named = [("all", list(reads)), ("undisturbed", quiet), *sorted(kinds.items())]
    return tuple(_stats(kind, found) for kind, found in named if found)


def table_reads(
    reads: Sequence[Read], tables: Mapping[str, States], others: Mapping[str, str]
) -> tuple[TableReads, ...]:
    """Every table: how many answers there are, or why there are none.

    Args:
        others: why tables were not asked for, by name.
    """
    answers = Counter(read.table for read in reads if read.rows is not None)
    asked = (
        TableReads(name, answers[name], "" if states.rows_seen else "it never had a row")
        for name, states in tables.items()
    )
    return (*asked, *(TableReads(name, 0, why) for name, why in others.items()))


def _stats(kind: str, reads: Sequence[Read]) -> ReadStats:
    took_ms = [read.took_s * 1000 for read in reads if read.rows is not None]
    p50, p99 = np.percentile(took_ms, (50, 99)).round(2).tolist() if took_ms else (0.0, 0.0)
    return ReadStats(kind, len(reads), len(reads) - len(took_ms), p50, p99)
