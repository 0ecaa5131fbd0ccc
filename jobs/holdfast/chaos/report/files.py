"""A verdict as text, JSON and JUnit XML; a run's report as files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from pydantic import TypeAdapter

from holdfast.errors import Refused
from holdfast.judge.verdict import (
    Finding,
    JobVerdict,
    ReadStats,
    RunVerdict,
    TableVerdict,
    Verdict,
    worst,
)

__all__ = [
    "MARKS",
    "as_json",
    "as_junit",
    "as_text",
    "run_as_junit",
    "run_as_text",
    "verdict_as_json",
    "write_report",
]

MARKS = {Verdict.VALID: "✓", Verdict.UNKNOWN: "?", Verdict.INVALID: "✗"}
# Keys are data: they may hold what XML has no way to write.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_WARNED = "input records are left out: see the warnings"
_ADAPTER = TypeAdapter(JobVerdict)
_RUN_ADAPTER = TypeAdapter(RunVerdict)


def as_text(job: JobVerdict, *, verbose: bool = False) -> str:
    """One line per table, and what is not valid under it; everything when `verbose`."""
    lines = [line for table in job.tables for line in _table_lines(table, verbose)]
    lines += list(job.notes)
    but = f", but {_WARNED}" if job.warnings and job.verdict is Verdict.VALID else ""
    lines.append(f"verdict: {job.verdict.value}{but} ({job.application_id}, {job.seconds:.1f} s)")
    return "\n".join(lines)


def as_json(job: JobVerdict) -> str:
    """The whole verdict; `verdict` is added to every level."""
    document = _ADAPTER.dump_python(job, mode="json")
    _add_verdicts(job, document)
    return json.dumps(document, indent=1, ensure_ascii=False)


def verdict_as_json(run: RunVerdict) -> str:
    """The same for a run; the tables' judgement is under `job`."""
    document = _RUN_ADAPTER.dump_python(run, mode="json")
    document["verdict"] = run.verdict.value
    _add_verdicts(run.job, document["job"])
    return json.dumps(document, indent=1, ensure_ascii=False)


def _add_verdicts(job: JobVerdict, document: dict[str, Any]) -> None:
    document["verdict"] = job.verdict.value
    document["warnings"] = list(job.warnings)
    for table, shown in zip(job.tables, document["tables"], strict=True):
        shown["verdict"] = table.verdict.value


def as_junit(job: JobVerdict) -> str:
    """One test case per table and checker: invalid is a failure, unknown an error."""
    cases = [(table.name, f) for table in job.tables for f in table.findings]
    return ET.tostring(_junit(job.application_id, job.seconds, cases), encoding="unicode")


def run_as_junit(run: RunVerdict) -> str:
    """The same with the run's own checkers, under its name."""
    cases = [(table.name, f) for table in run.job.tables for f in table.findings]
    cases += [(run.run, f) for f in run.findings]
    suite = _junit(f"chaos {run.job.application_id}", run.job.seconds, cases)
    return _with_reads(suite, run.reads)


def _junit(name: str, seconds: float, cases: Iterable[tuple[str, Finding]]) -> ET.Element:
    suite = ET.Element("testsuite", name=name, time=f"{seconds:.3f}")
    counts = dict.fromkeys(Verdict, 0)
    for where, finding in cases:
        counts[finding.verdict] += 1
        case = ET.SubElement(suite, "testcase", classname=where, name=finding.checker)
        if finding.verdict is not Verdict.VALID:
            tag = "failure" if finding.verdict is Verdict.INVALID else "error"
            problem = ET.SubElement(case, tag, message=_NOT_XML.sub("?", finding.fact))
            problem.text = _NOT_XML.sub("?", "\n".join(finding.examples))
    suite.set("tests", str(sum(counts.values())))
    suite.set("failures", str(counts[Verdict.INVALID]))
    suite.set("errors", str(counts[Verdict.UNKNOWN]))
    return suite


def _with_reads(suite: ET.Element, reads: Iterable[ReadStats]) -> str:
    """The suite with a property per number of the reads, such as `reads.all.p99_ms`."""
    properties = ET.Element("properties")
    for stats in reads:
        for name in ("count", "failed", "p50_ms", "p99_ms"):
            full = f"reads.{stats.kind.replace(' ', '.')}.{name}"
            ET.SubElement(properties, "property", name=full, value=str(getattr(stats, name)))
    if len(properties):
        suite.insert(0, properties)
    return ET.tostring(suite, encoding="unicode")


def run_as_text(run: RunVerdict, *, verbose: bool = False) -> str:
    """The summary of a run: tables, run, recoveries, verdict."""
    from holdfast.chaos.report.summary import recovery_stats

    lines = [line for table in run.job.tables for line in _table_lines(table, verbose)]
    bad = [f for f in run.findings if f.verdict is not Verdict.VALID]
    mark = MARKS[worst(f.verdict for f in run.findings)]
    lines.append(f"{mark} the run: {len(run.findings) - len(bad)} of {len(run.findings)} checks")
    lines += [line for f in (run.findings if verbose else bad) for line in _finding_lines(f)]
    lines += [
        f"  recovery from {s.kind} ({len(s.seconds)}): median {s.median_s:.1f} s, "
        f"p95 {s.p95_s:.1f} s, max {s.max_s:.1f} s"
        for s in recovery_stats(run.recovery_s)
    ]
    lines += [
        f"  reads, {r.kind}: {r.count:,}, {r.failed} failed, p50 {r.p50_ms:.1f} ms, "
        f"p99 {r.p99_ms:.1f} ms"
        for r in run.reads
    ]
    lines += [
        f"  reads of {t.table}: {f'none, {t.why}' if t.why else f'{t.answers:,} answers'}"
        for t in run.tables_read
    ]
    lines.append(f"verdict: {run.verdict.value} (run {run.run} of {run.job.application_id})")
    return "\n".join(lines)


def write_report(folder: Path) -> Path:
    """Writes `report.html`, `report.png` and `junit.xml` of a judged run; returns the page's path.

    Args:
        folder: of the run, with `run.json`, the history and `verdict.json`.

    Raises:
        Refused: the run was not judged, or matplotlib is not installed.
    """
    try:
        from holdfast.chaos.report.page import page
        from holdfast.chaos.report.plots import write_png
    except ImportError as error:
        raise Refused(
            f"The report needs a package that is not installed: {error.name}.",
            action="pip install 'holdfast[chaos]'; the verdict is in verdict.json all the same",
        ) from error
    from holdfast.chaos.report.summary import read_summary, recovery_stats

    summary = read_summary(folder)
    (folder / "junit.xml").write_text(run_as_junit(summary.verdict), encoding="utf-8")
    write_png(summary, recovery_stats(summary.verdict.recovery_s), folder / "report.png")
    html = folder / "report.html"
    html.write_text(page(summary), encoding="utf-8")
    return html


def _table_lines(table: TableVerdict, verbose: bool) -> Iterator[str]:
    yield (
        f"{MARKS[table.verdict]} {table.name}: {table.verdict.value}, {table.rows} rows from "
        f"{table.input_records} input records"
    )
    for query_id, left in table.left_out.items():
        if text := left.beside(table.warnings):
            whose = f" of {query_id}" if len(table.left_out) > 1 else ""
            yield f"    not in it{whose}: {text}"
    yield from (f"    warning: {text}" for text in table.warnings)
    for finding in table.findings:
        if verbose or finding.verdict is not Verdict.VALID:
            yield from _finding_lines(finding)


def _finding_lines(finding: Finding) -> Iterator[str]:
    yield f"    {MARKS[finding.verdict]} {finding.checker}: {finding.fact}"
    yield from (f"        {example}" for example in finding.examples)
