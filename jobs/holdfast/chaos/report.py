"""A verdict as text, JSON and JUnit XML."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree as ET

from pydantic import TypeAdapter

from holdfast.chaos.verdict import JobVerdict, RunVerdict, TableVerdict, Verdict

__all__ = ["MARKS", "as_json", "as_junit", "as_text", "verdict_as_json"]

MARKS = {Verdict.VALID: "✓", Verdict.UNKNOWN: "?", Verdict.INVALID: "✗"}
_ADAPTER = TypeAdapter(JobVerdict)
_RUN_ADAPTER = TypeAdapter(RunVerdict)


def as_text(job: JobVerdict, *, verbose: bool = False) -> str:
    """One line per table, and what is not valid under it; everything when `verbose`."""
    lines = [line for table in job.tables for line in _table_lines(table, verbose)]
    lines += list(job.notes)
    lines.append(f"verdict: {job.verdict.value} ({job.application_id}, {job.seconds:.1f} s)")
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
    for table, shown in zip(job.tables, document["tables"], strict=True):
        shown["verdict"] = table.verdict.value


def as_junit(job: JobVerdict) -> str:
    """One test case per table and checker: invalid is a failure, unknown an error."""
    suite = ET.Element("testsuite", name=job.application_id, time=f"{job.seconds:.3f}")
    counts = dict.fromkeys(Verdict, 0)
    for table in job.tables:
        for finding in table.findings:
            counts[finding.verdict] += 1
            case = ET.SubElement(suite, "testcase", classname=table.name, name=finding.checker)
            if finding.verdict is not Verdict.VALID:
                tag = "failure" if finding.verdict is Verdict.INVALID else "error"
                problem = ET.SubElement(case, tag, message=finding.fact)
                problem.text = "\n".join(finding.examples)
    suite.set("tests", str(sum(counts.values())))
    suite.set("failures", str(counts[Verdict.INVALID]))
    suite.set("errors", str(counts[Verdict.UNKNOWN]))
    return ET.tostring(suite, encoding="unicode")


def _table_lines(table: TableVerdict, verbose: bool) -> Iterator[str]:
    yield (
        f"{MARKS[table.verdict]} {table.name}: {table.verdict.value}, {table.rows} rows from "
        f"{table.input_records} input records"
    )
    for finding in table.findings:
        if verbose or finding.verdict is not Verdict.VALID:
            yield f"    {MARKS[finding.verdict]} {finding.checker}: {finding.fact}"
            yield from (f"        {example}" for example in finding.examples)
