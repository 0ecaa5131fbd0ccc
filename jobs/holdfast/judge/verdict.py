"""What a judgement says: valid, invalid or unknown, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from holdfast.types.left_out import LeftOut

__all__ = [
    "Finding",
    "JobVerdict",
    "ReadStats",
    "RunVerdict",
    "TableReads",
    "TableVerdict",
    "Verdict",
    "worst",
]


class Verdict(StrEnum):
    """`unknown` is not good news: what could not be judged is not shown to be right."""

    VALID = "valid"
    UNKNOWN = "unknown"
    INVALID = "invalid"


_BADNESS = {Verdict.VALID: 0, Verdict.UNKNOWN: 1, Verdict.INVALID: 2}


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The worst verdict wins; no verdict at all is unknown."""
    return max(verdicts, key=_BADNESS.__getitem__, default=Verdict.UNKNOWN)


@dataclass(frozen=True)
class Finding:
    """What one checker found in one table or run.

    Attributes:
        checker: the checker's name.
        fact: one sentence with numbers.
        examples: a few offending keys or records, as text.
    """

    checker: str
    verdict: Verdict
    fact: str
    examples: tuple[str, ...] = ()


@dataclass(frozen=True)
class TableVerdict:
    """All findings about one table or stream, with how much was compared.

    Attributes:
        left_out: by query, its input since its first batch, and what of it is in no result.
        warnings: what is left out beyond the shares allowed; the verdict says nothing of it.
    """

    name: str
    findings: tuple[Finding, ...]
    input_records: int = 0
    rows: int = 0
    left_out: Mapping[str, LeftOut] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        return worst(f.verdict for f in self.findings)


@dataclass(frozen=True)
class JobVerdict:
    """The judgement of a whole job."""

    application_id: str
    tables: tuple[TableVerdict, ...]
    seconds: float = 0.0
    notes: tuple[str, ...] = field(default=())

    @property
    def verdict(self) -> Verdict:
        return worst(t.verdict for t in self.tables)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Those of all tables, each with the table's name."""
        return tuple(f"{table.name}: {text}" for table in self.tables for text in table.warnings)


@dataclass(frozen=True)
class ReadStats:
    """Look-ups at query servers while one kind of fault lasted; `all` and `undisturbed`, too.

    Attributes:
        p50_ms: of those that were answered, until their answer, tries at other servers included;
            0 without any.
    """

    kind: str
    count: int
    failed: int
    p50_ms: float
    p99_ms: float


@dataclass(frozen=True)
class TableReads:
    """How often query servers have told of one table.

    Attributes:
        why: it was not asked for, or had nothing to tell; empty else.
    """

    table: str
    answers: int
    why: str = ""


@dataclass(frozen=True)
class RunVerdict:
    """The judgement of a chaos run: its tables, and whether the run itself proves anything.

    Attributes:
        run: its name.
        job: the tables' judgement.
        findings: about faults, recovery and load.
        recovery_s: seconds of each recovery by kind of fault, "executor kill" for one; a fault
            after which nothing was committed before the next one has none.
        reads: empty of a run without query servers; `tables_read` likewise.
    """

    run: str
    job: JobVerdict
    findings: tuple[Finding, ...]
    recovery_s: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    reads: tuple[ReadStats, ...] = ()
    tables_read: tuple[TableReads, ...] = ()

    @property
    def verdict(self) -> Verdict:
        return worst([self.job.verdict, *(f.verdict for f in self.findings)])
