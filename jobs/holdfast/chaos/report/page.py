"""The report as one HTML page: nothing is loaded from anywhere, so it can be mailed and kept."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from html import escape

from holdfast.chaos.history.run_file import limits_in_words
from holdfast.chaos.history.strikes import Strike
from holdfast.chaos.report.advice import ADVICE
from holdfast.chaos.report.files import MARKS
from holdfast.chaos.report.plots import recovery_svg, timeline_svg
from holdfast.chaos.report.summary import RecoveryStats, RunSummary, recovery_stats
from holdfast.judge.verdict import Finding, ReadStats, TableReads, TableVerdict, Verdict
from holdfast.pages.html import document, header, section, table

__all__ = ["page"]


def page(summary: RunSummary) -> str:
    """The whole page."""
    stats = recovery_stats(summary.verdict.recovery_s)
    title = f"{summary.asked.get('name', '')}: {summary.verdict.verdict.value}"
    parts = [
        _header(summary),
        _problems(summary),
        section("Over time", f'<div class="plot">{timeline_svg(summary)}</div>'),
        _recovery(stats, summary.history.undisturbed_s),
        _faults(summary),
        _reads(summary.verdict.reads, summary.verdict.tables_read),
        _tables(summary.verdict.job.tables),
        section("The run itself", _findings(summary.verdict.findings)),
        _again(summary),
    ]
    return document(title, parts)


def _header(summary: RunSummary) -> str:
    verdict = summary.verdict.verdict
    began = dt.datetime.fromtimestamp(summary.began_s, dt.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    asked, load = summary.asked, summary.history.load
    facts = {
        "Job": asked.get("name", ""),
        "Target": " ".join(filter(None, [asked.get("target"), asked.get("namespace")])),
        "Run": summary.verdict.run,
        "Seed": asked.get("seed", ""),
        "Began": began,
        "Took": _duration(summary.seconds),
        "Records": f"{load.sent:,}" if load is not None else "not known",
        "Faults": len(summary.history.strikes),
        "Asked for": limits_in_words(len(asked.get("schedule", ())), asked.get("duration_s", 0.0)),
        "Holdfast": f"{asked.get('version', '')} {str(asked.get('commit', ''))[:10]}",
    }
    return header(
        verdict.value,
        f"{MARKS[verdict]} {verdict.value}",
        f"Chaos run of {asked.get('name', '')}",
        summary.headline(),
        facts,
    )


def _problems(summary: RunSummary) -> str:
    """Everything that is not valid, the worst first, and what to do about it."""
    named = [(t.name, f) for t in summary.verdict.job.tables for f in t.findings]
    named += [("the run", f) for f in summary.verdict.findings]
    bad = [(name, f) for name, f in named if f.verdict is not Verdict.VALID]
    if not bad:
        return ""
    bad.sort(key=lambda p: p[1].verdict is not Verdict.INVALID)
    items = "".join(
        f'<li class="{f.verdict.value}"><b>{escape(name)}: {escape(f.checker)}</b> {escape(f.fact)}'
        f"{_examples(f)}<p>{escape(ADVICE.get(f.checker, ''))}</p></li>"
        for name, f in bad
    )
    return section("What is wrong, and what to do", f'<ul class="problems">{items}</ul>')


def _recovery(stats: Sequence[RecoveryStats], undisturbed_s: float | None) -> str:
    if not stats:
        return section("Recovery", "<p>No recovery was seen.</p>")
    rows = ([s.kind, len(s.seconds), *(f"{x:.1f}" for x in (s.median_s, s.p95_s, s.max_s))]
            for s in stats)  # fmt: skip
    times = table(("Fault", "Number", "Median s", "p95 s", "Max s"), rows, numbers=4)
    note = "<p>The longest time without a commit after a fault and before the next one."
    if undisturbed_s is not None:
        note += f" Undisturbed, the job committed every {undisturbed_s:.1f} s."
    note += "</p>"
    return section("Recovery", f'{note}{times}<div class="plot">{recovery_svg(stats)}</div>')


def _faults(summary: RunSummary) -> str:
    rows = [
        _fault(summary, strike, recovery)
        for strike, recovery in zip(summary.history.strikes, summary.recoveries, strict=True)
    ]
    names = ("#", "At", "Fault", "Victims", "Done and seen", "Lag", "Recovery")
    return section("Faults", table(names, rows))


def _fault(summary: RunSummary, strike: Strike, recovery: float | None) -> Sequence[object]:
    moment = strike.injection.moment.value
    held = f" (held at {strike.held_step.lower()})" if strike.held_step else ""
    mark = "✓" if strike.landed else "✗"
    shared = "with the next one" if strike.recovered_s is not None else "not recovered"
    return (
        strike.injection.number + 1,
        _duration(summary.since(strike.at_s)),
        f"{strike.title}, {moment}{held}",
        ", ".join(strike.victims),
        f"{mark} {strike.did}{': ' if strike.did and strike.evidence else ''}{strike.evidence}",
        "" if strike.lag_before is None else f"{strike.lag_before:,}",
        f"{recovery:.1f} s" if recovery is not None else shared,
    )


def _reads(reads: Sequence[ReadStats], tables: Sequence[TableReads]) -> str:
    if not reads:
        return ""
    rows = ([r.kind, f"{r.count:,}", r.failed, f"{r.p50_ms:.1f}", f"{r.p99_ms:.1f}"] for r in reads)
    note = (
        "<p>Look-ups by key at the query servers while each kind of fault was not yet recovered "
        "from. Times include tries at other servers.</p>"
    )
    names = ("While", "Reads", "Failed", "p50 ms", "p99 ms")
    told = ([t.table, t.why, f"{t.answers:,}"] for t in tables)
    of_tables = table(("Table", "Why there are none", "Answers"), told, numbers=1)
    return section("Reads", note + table(names, rows, numbers=4) + of_tables)


def _tables(tables: Iterable[TableVerdict]) -> str:
    cards = "".join(
        f'<details class="{t.verdict.value}"{"" if t.verdict is Verdict.VALID else " open"}>'
        f"<summary><b>{MARKS[t.verdict]} {escape(t.name)}</b> {t.rows:,} rows from "
        f"{t.input_records:,} input records</summary>{_findings(t.findings)}</details>"
        for t in tables
    )
    note = (
        "<p>Each one was computed again from its input topics, by other code, and compared with "
        "the sink, the changelog and the stores.</p>"
    )
    return section("Tables and streams", note + cards)


def _findings(findings: Iterable[Finding]) -> str:
    rows = "".join(
        f'<tr class="{f.verdict.value}"><td>{MARKS[f.verdict]}</td><td>{escape(f.checker)}</td>'
        f"<td>{escape(f.fact)}{_examples(f)}</td></tr>"
        for f in findings
    )
    return f'<div class="scroll"><table class="findings">{rows}</table></div>'


def _examples(finding: Finding) -> str:
    return "".join(f"<code>{escape(example)}</code>" for example in finding.examples)


def _again(summary: RunSummary) -> str:
    asked, servers = summary.asked, summary.asked.get("servers", ())
    options = [
        f"--target {asked.get('target', 'local')}",
        f"--seed {asked.get('seed')}",
        f"--rounds {len(asked.get('schedule', ()))}",
        f"--rate {asked.get('rate')}",
        *([f"--own --servers {len(servers)}"] if servers and asked.get("own") else []),
    ]
    command = f"holdfast chaos run {asked.get('name', '')} job.sql {' '.join(options)}"
    properties = "\n".join(map(str, asked.get("overrides", ())))
    return section(
        "Run it again",
        "<p>The same seed and options give the same schedule; it is in run.json.</p>"
        f"<pre>{escape(command)}</pre>"
        f"<details><summary>job.sql</summary><pre>{escape(str(asked.get('sql', '')))}</pre>"
        f"</details><details><summary>Properties</summary><pre>{escape(properties)}</pre></details>",
    )


def _duration(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d} min"
