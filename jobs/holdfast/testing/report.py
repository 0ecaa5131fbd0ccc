"""Results for people (tables of differences), for programs (JSON) and for CI (JUnit XML)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from io import StringIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from rich.console import Console
from rich.table import Table
from rich.text import Text

from holdfast.testing.cases import Spec
from holdfast.testing.compare import Difference
from holdfast.testing.json_text import dumps
from holdfast.testing.run import Outcome, Result

__all__ = ["as_json", "as_text", "junit", "show", "totals"]

_MOST = 20  # differences shown of a case
_CONTROL = dict.fromkeys([*range(9), 11, 12, *range(14, 32)], "�")


def show(result: Result, console: Console) -> None:
    """Why a case did not pass, with its differences."""
    style = "red" if result.outcome is Outcome.FAILED else "magenta"
    console.print(Text(f"{result.outcome.upper()} {result.case.name}", style=f"bold {style}"))
    console.print(Text(f"  {result.case.origin}", style="dim"))
    if result.reason:
        console.print(Text(f"  {result.reason}"))
    if result.differences:
        console.print(_table(result.differences))
    if result.outcome is Outcome.ERROR:
        console.print(Text(result.trace, style="dim"))


def as_text(result: Result, width: int = 120) -> str:
    """The output of `show`, without colours."""
    console = Console(file=StringIO(), width=width)
    with console.capture() as captured:
        show(result, console)
    return captured.get()


def _table(differences: Sequence[Difference]) -> Table:
    table = Table(show_lines=True)
    for title in ("topic", "record", "expected", "actual", "what differs"):
        table.add_column(title, overflow="fold")
    for each in differences[:_MOST]:
        cells = (each.topic, str(each.at), _said(each.expected), _said(each.actual))
        table.add_row(*map(Text, cells), Text(", ".join(each.what), style="red"))
    if len(differences) > _MOST:
        table.caption = f"and {len(differences) - _MOST} more"
    return table


def _said(spec: Spec | None) -> str:
    """A record in a few lines, without fields that a test file may leave out."""
    if spec is None:
        return "-"
    lines = [f"key {dumps(spec.key)}", f"value {dumps(spec.value)}"]
    if spec.timestamp is not None:
        lines.append(f"timestamp {spec.timestamp}")
    if spec.window is not None:
        lines.append(f"window {spec.window.start}..{spec.window.end} ({spec.window.type})")
    if spec.headers:
        lines.append(f"headers {list(spec.headers)}")
    return "\n".join(lines)


def totals(results: Iterable[Result]) -> dict[str, int]:
    """Cases by outcome, and how many refusals have the expected words."""
    results = list(results)
    counted = Counter(r.outcome for r in results)
    found = {str(outcome): counted[outcome] for outcome in Outcome}
    found["refused_with_the_words"] = sum(r.words is True for r in results)
    found["refused_in_other_words"] = sum(
        r.words is False and r.outcome is Outcome.PASSED for r in results
    )
    return found


def as_json(results: Sequence[Result]) -> str:
    """All results as one JSON object."""
    return dumps({"totals": totals(results), "cases": [_as_json(r) for r in results]})


def _as_json(result: Result) -> dict[str, Any]:
    refusal = result.case.refusal
    return {
        "file": result.case.origin,
        "name": result.case.name,
        "outcome": str(result.outcome),
        "reason": result.reason,
        "seconds": round(result.seconds, 3),
        "expected_message": refusal.message if refusal is not None else None,
        "words": result.words,
        "trace": result.trace,
        "differences": [
            {
                "topic": d.topic,
                "at": d.at,
                "what": list(d.what),
                "expected": _said(d.expected),
                "actual": _said(d.actual),
            }
            for d in result.differences
        ],
    }


def junit(results: Sequence[Result], path: Path) -> None:
    """Writes one `testsuite` with a `testcase` for each result."""
    counted = totals(results)
    suite = ET.Element(
        "testsuite",
        name="holdfast test",
        tests=str(len(results)),
        failures=str(counted["failed"]),
        errors=str(counted["error"]),
        skipped=str(counted["skipped"]),
        time=f"{sum(r.seconds for r in results):.3f}",
    )
    for result in results:
        _junit_case(suite, result)
    ET.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)


def _junit_case(suite: ET.Element, result: Result) -> None:
    case = ET.SubElement(
        suite,
        "testcase",
        classname=Path(result.case.origin).stem,
        name=result.case.name,
        time=f"{result.seconds:.3f}",
    )
    tags = {Outcome.FAILED: "failure", Outcome.ERROR: "error", Outcome.SKIPPED: "skipped"}
    tag = tags.get(result.outcome)
    if tag is None:
        return
    # XML holds no control characters, and a record may.
    details = [f"{d.topic} {d.at}: {_said(d.expected)} | {_said(d.actual)}"
               for d in result.differences]  # fmt: skip
    node = ET.SubElement(case, tag, message=result.reason.translate(_CONTROL))
    node.text = "\n".join([*details, result.trace]).translate(_CONTROL)
