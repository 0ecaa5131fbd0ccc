"""The result of a judgement: valid, invalid or unknown, and why."""

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
    """`unknown` is not good news: a table that could not be judged was not shown to be right."""

    VALID = "valid"
    UNKNOWN = "unknown"
    INVALID = "invalid"


_BADNESS = {Verdict.VALID: 0, Verdict.UNKNOWN: 1, Verdict.INVALID: 2}


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The worst of the verdicts; without any verdict, unknown."""
    return max(verdicts, key=_BADNESS.__getitem__, default=Verdict.UNKNOWN)


@dataclass(frozen=True)
class Finding:
    """The result of one checker for one table or run.

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
        left_out: by query, its input since its first batch, and the part of it in no result.
        warnings: left-out shares beyond the limits; they do not affect the verdict.
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
        """The warnings of all tables, each with the table's name."""
        return tuple(f"{table.name}: {text}" for table in self.tables for text in table.warnings)


@dataclass(frozen=True)
class ReadStats:
    """Look-ups at query servers while one kind of fault lasted; also for `all` and `undisturbed`.

    Attributes:
        p50_ms: for answered reads, the time until the answer, including tries at other servers;
            0 without any.
    """

    kind: str
    count: int
    failed: int
    p50_ms: float
    p99_ms: float


@dataclass(frozen=True)
class TableReads:
    """How often query servers have answered for one table.

    Attributes:
        why: it was not read, or has no rows; empty otherwise.
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
        recovery_s: seconds of each recovery by kind of fault, such as "executor kill"; a fault
            without a commit before the next one has none.
        reads: empty for a run without query servers; `tables_read` likewise.
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
