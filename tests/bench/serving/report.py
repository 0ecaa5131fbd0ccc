"""The report of `make bench-serving`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.bench.serving.kills import Killed
from tests.bench.serving.live import Live

__all__ = ["Answers", "Found"]


@dataclass(frozen=True)
class Answers:
    """Look-ups of one engine; memory of its process (PSS) right after them."""

    engine: str
    rate: float
    p50_ms: float
    p99_ms: float
    memory_mb: float
    wrong: int
    failed: str


@dataclass
class Found:
    """Everything that was measured.  `verdict`: of tables and answers of the run with kills."""

    machine: Mapping[str, str]
    connections: int
    answers: list[Answers] = field(default_factory=list)
    following: list[Live] = field(default_factory=list)
    killed: list[Killed] = field(default_factory=list)
    verdict: str = ""

    def as_json(self) -> dict[str, Any]:
        return {
            "machine": self.machine,
            "look-ups": list(map(vars, self.answers)),
            "following": list(map(vars, self.following)),
            "kills": {"verdict": self.verdict, "reads": list(map(vars, self.killed))},
        }

    def markdown(self) -> str:
        parts = ["# Reading a table\n", "".join(f"* {n}: {v}\n" for n, v in self.machine.items())]
        if self.answers:
            parts.append(self._look_ups())
        if self.following:
            parts.append(self._following())
        if self.killed:
            parts.append(self._kills())
        return "\n".join(parts)

    def _look_ups(self) -> str:
        head = "engine | a second | p50 ms | p99 ms | memory MB | wrong | failed"
        rows = [
            f"{a.engine} | {a.rate:,.0f} | {a.p50_ms:.2f} | {a.p99_ms:.2f} | {a.memory_mb:,.0f} "
            f"| {a.wrong} | {a.failed or '-'}"
            for a in self.answers
        ]
        title = f"Look-ups by key, {self.connections} connections, server on one core"
        note = "Memory is the server's process (PSS) right after the look-ups: Kafka Streams' is "
        note += "also the engine that keeps the table, Holdfast's server only follows it.\n"
        return _table(title, head, rows) + "\n" + note

    def _following(self) -> str:
        head = "the job beside it | push p50 ms | push p99 ms | changes (missing) "
        head += "| behind p50 | behind p99 | server CPU s per million | changelog records"
        rows = [
            f"{f.beside} | {f.push_p50_ms:,.0f} | {f.push_p99_ms:,.0f} "
            f"| {f.pushed:,} ({f.missing}) | {f.lag_p50:,.0f} | {f.lag_p99:,.0f} "
            f"| {f.cpu_s_per_m:.1f} | {f.records:,}"
            for f in self.following
        ]
        note = (
            "Push: from a commit, as a consumer of the sink sees it, to the client of a push "
            "query. Behind: committed changelog records the server does not have. Server, job, "
            "broker and this measurement share all cores.\n"
        )
        return _table("Push queries and lag while a job runs", head, rows) + "\n" + note

    def _kills(self) -> str:
        head = "while dead or not recovered | kills | look-ups | failed | p99 ms | longest gap s"
        rows = [
            f"{k.victim} | {k.kills or '-'} | {k.reads:,} | {k.failed} | {k.p99_ms:,.1f} "
            f"| {k.longest_gap_s:.2f}"
            for k in self.killed
        ]
        note = (
            f"Tables and answers: {self.verdict}. A gap is one reader's time between two answers, "
            "0.1 s of it his own pause.\n"
        )
        return _table("Look-ups while processes are killed (SIGKILL)", head, rows) + "\n" + note


def _table(title: str, head: str, rows: Sequence[str]) -> str:
    line = "---|" * (head.count("|") + 1)
    body = "".join(f"| {row} |\n" for row in rows)
    return f"## {title}\n\n| {head} |\n|{line}\n{body}"
