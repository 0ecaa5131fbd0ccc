"""Plans of changelog compaction and verdicts of chaos runs, read from their folders.

Several homes may have runs (`make chaos` has its own); of two runs with the same name, the first
home's is shown.  A folder may be written to while it is read, or be of another version: unreadable
runs are left out, or named with the reason; the page never fails because of one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import orjson

from holdfast.compaction.apply.applied import Applied
from holdfast.compaction.plan.plan import Change, Plan, TopicPlan
from holdfast.compaction.runs import APPLIED, PLAN, REPORT_PAGE, SURVEY, VERIFIED
from holdfast.compaction.verify.verified import TopicResult, Verified
from holdfast.config.run_folders import folder_of_run
from holdfast.errors import HoldfastError, Refused

__all__ = ["CHAOS", "COMPACTION", "chaos_run", "chaos_runs", "compaction_run", "compaction_runs",
           "report_of"]  # fmt: skip

COMPACTION, CHAOS = "compaction", "chaos"
_VERDICT, _ASKED = "verdict.json", "run.json"
_LISTED_MAX = 100


def compaction_runs(homes: Sequence[Path]) -> list[dict[str, Any]]:
    """All runs, newest first: name, time, state, and the plan's gain in bytes and seconds."""
    return [_plan_line(folder) for folder in _folders(homes, COMPACTION, SURVEY)]


def compaction_run(homes: Sequence[Path], run: str) -> dict[str, Any]:
    """One run, topic by topic: the planned changes, the applied ones, and their results.

    Raises:
        Refused: there is no such run, or it has no plan.
    """
    folder = _folder(homes, COMPACTION, run)
    plan = Plan.read(folder / PLAN)
    verified = _verified(folder)
    results = {t.topic: t for t in verified.topics} if verified else {}
    return {
        **_plan_line(folder),
        "policy": plan.policy,
        "topics": [_topic(topic, results.get(topic.topic)) for topic in plan.topics],
        "advice": plan.advice,
        "unmet": plan.unmet,
        "warnings": verified.all_warnings if verified else (),
    }


def _plan_line(folder: Path) -> dict[str, Any]:
    line: dict[str, Any] = {"run": folder.name, "state": "surveyed"}
    line["report"] = (folder / REPORT_PAGE).is_file()
    try:
        plan, applied = Plan.read(folder / PLAN), Applied.read(folder / APPLIED)
        verified = _verified(folder)
    except HoldfastError as error:
        there = (folder / PLAN).exists()
        return line | ({"state": "unreadable", "problem": error.fact} if there else {})
    asked = [t for t in plan.topics if not t.nothing]
    return line | {
        "state": _state(plan, applied, verified),
        "hash": plan.hash,
        "taken_ms": plan.survey_ms,
        "topic_count": len(plan.topics),
        "asked": len(asked),
        "bytes_before": sum(t.before.bytes for t in plan.topics),
        "bytes_after": sum((t.after if t.temporary else t.before).bytes for t in plan.topics),
        "cut_off": applied.cut_off if applied else "",
    }


def _state(plan: Plan, applied: Applied | None, verified: Verified | None) -> str:
    if verified is not None:
        return verified.verdict
    if applied is not None:
        return "cut off" if applied.cut_off else "applied"
    return "nothing to do" if plan.nothing else "planned"


def _verified(folder: Path) -> Verified | None:
    try:
        return Verified.read(folder / VERIFIED)
    except Refused:
        return None


def _topic(topic: TopicPlan, result: TopicResult | None) -> dict[str, Any]:
    return {
        "topic": topic.topic,
        "why": topic.why,
        "risks": topic.risks,
        "nothing": topic.nothing,
        "changes": [
            *(_change(change, stays=True) for change in topic.changes),
            *(_change(change, stays=False) for change in topic.temporary),
        ],
        "bytes": [topic.before.bytes, topic.after.bytes, topic.steady.bytes],
        "restore_s": [topic.before.restore_s, topic.after.restore_s, topic.steady.restore_s],
        "cleaner_s": topic.cleaner_s,
        "result": _result(result) if result else None,
    }


def _change(change: Change, *, stays: bool) -> dict[str, Any]:
    before = change.value_before if change.before is not None else f"{change.value_before} (broker)"
    return {"name": change.name, "before": before, "after": change.after, "why": change.why,
            "stays": stays}  # fmt: skip


def _result(result: TopicResult) -> dict[str, Any]:
    return {
        "outcome": result.outcome,
        "bytes": [result.bytes_before, result.bytes_predicted, result.bytes_real],
        "records": [result.records_before, result.records_predicted, result.records_real],
    }


def chaos_runs(homes: Sequence[Path]) -> list[dict[str, Any]]:
    """All runs, newest first: name, job, verdict, faults, rows compared."""
    lines = [_chaos_line(folder) for folder in _folders(homes, CHAOS, _ASKED)]
    return sorted(lines, key=lambda line: line["created_ms"], reverse=True)


def chaos_run(homes: Sequence[Path], run: str) -> dict[str, Any]:
    """One run with every finding.

    Raises:
        Refused: there is no such run.
    """
    folder = _folder(homes, CHAOS, run)
    if not (folder / _ASKED).is_file():
        raise Refused(f"There is no chaos run {run}.", action="see the list of runs")
    verdict = _object(folder / _VERDICT)
    return {
        **_chaos_line(folder),
        "tables": verdict.get("job", {}).get("tables", []),
        "findings": verdict.get("findings", []),
        "notes": verdict.get("job", {}).get("notes", []),
        "recovery_s": verdict.get("recovery_s", {}),
    }


def _chaos_line(folder: Path) -> dict[str, Any]:
    asked, verdict = _object(folder / _ASKED), _object(folder / _VERDICT)
    tables = verdict.get("job", {}).get("tables", [])
    faults = Counter(f"{one['component']} {one['fault']}" for one in asked.get("schedule", []))
    recoveries = [s for kind in verdict.get("recovery_s", {}).values() for s in kind]
    return {
        "run": folder.name,
        "job": asked.get("name", ""),
        "target": asked.get("target", ""),
        "created_ms": int(asked.get("created_s", 0) * 1000),
        "verdict": verdict.get("verdict", "not judged"),
        "faults": faults,
        "seed": asked.get("seed"),
        "rate": asked.get("rate"),
        "commit": asked.get("commit", ""),
        "table_count": len(tables),
        "rows": sum(t.get("rows", 0) for t in tables),
        "records": max((t.get("input_records", 0) for t in tables), default=0),
        "recovery_median_s": median(recoveries) if recoveries else None,
        "report": (folder / REPORT_PAGE).is_file(),
    }


def report_of(homes: Sequence[Path], kind: str, run: str) -> bytes:
    """A run's report page.

    Raises:
        Refused: there is no such run, or its report was not written.
    """
    path = _folder(homes, kind, run) / REPORT_PAGE
    try:
        return path.read_bytes()
    except OSError as error:
        raise Refused(
            f"The {kind} run {run} has no report.", action=f"holdfast {kind} report writes it"
        ) from error


def _folder(homes: Sequence[Path], kind: str, run: str) -> Path:
    """The run's folder in the first home that has it, else its path in the first home."""
    places = [folder_of_run(home, kind, run) for home in homes]
    return next((place for place in places if place.is_dir()), places[0])


def _folders(homes: Sequence[Path], kind: str, file: str) -> list[Path]:
    """Folders of runs that contain `file`, newest first."""
    found: dict[str, Path] = {}
    for home in homes:
        for path in home.glob(f"{kind}/*/{file}"):
            found.setdefault(path.parent.name, path.parent)
    return sorted(found.values(), key=_written, reverse=True)[:_LISTED_MAX]


def _written(folder: Path) -> tuple[int, str]:
    names = (_ASKED, SURVEY)
    times = [(folder / name).stat().st_mtime_ns for name in names if (folder / name).exists()]
    return max(times, default=0), folder.name


def _object(path: Path) -> Mapping[str, Any]:
    """A JSON object; empty if the file is missing or unreadable."""
    try:
        found = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return {}
    return found if isinstance(found, dict) else {}
