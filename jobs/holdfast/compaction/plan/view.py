"""A plan for people: tables on a terminal, the same as Markdown for a page of approval."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from holdfast.compaction.fitting import FittingTable
from holdfast.compaction.plan.plan import Change, Plan, TopicPlan
from holdfast.types.words import human_bytes, human_seconds

__all__ = ["as_markdown", "plan_view"]

_COSTS = ("order", "changelog", "*bytes now", "*bytes after", "*bytes at worst", "*restore now",
          "*restore after", "*restore at worst", "*cleaner", "*takes")  # fmt: skip
_TITLE = 1
_AS_NOW, _NO_WORK, _NOT_CLEANED = "as now", "none", "not cleaned"
_CHANGES = ("changelog", "setting", "before", "after", "")
_INDENT = "    "
_STAYS, _PUT_BACK = "stays", "put back after the cleaning"


def plan_view(plan: Plan) -> RenderableType:
    """The changes, the gain and the risks; the hash is in the last line."""
    parts: list[RenderableType] = [_head(plan)]
    if plan.topics:
        parts.append(FittingTable(_COSTS, [_cost_row(t) for t in plan.topics], _TITLE))
    changes = list(_change_rows(plan))
    if changes:
        parts.append(FittingTable(_CHANGES, changes))
    parts += [_paragraph(line) for line in _remarks(plan)]
    return Group(*parts, Text(_seal(plan)))


def as_markdown(plan: Plan) -> str:
    """The same in Markdown, ending in a newline."""
    lines = [_head(plan), ""]
    if plan.topics:
        lines += [*_grid(_COSTS, [_cost_row(t) for t in plan.topics]), ""]
    changes = list(_change_rows(plan))
    if changes:
        lines += [*_grid(_CHANGES, changes), ""]
    lines += [_bullet(line) for line in _remarks(plan)]
    return "\n".join([*lines, "", _seal(plan), ""])


def _head(plan: Plan) -> str:
    if plan.nothing:
        return "Nothing to do."
    cleaned = [t for t in plan.topics if t.temporary]
    changed = sum(1 for t in plan.topics if t.changes)
    told = [f"{changed} of {len(plan.topics)} changelogs get settings that stay"] if changed else []
    if cleaned:
        before, after = sum(t.before.bytes for t in cleaned), sum(t.after.bytes for t in cleaned)
        told.append(
            f"{len(cleaned)} of {len(plan.topics)} are cleaned, one after the other: "
            f"{human_bytes(before)} → {human_bytes(after)} in about "
            f"{human_seconds(sum(t.cleaner_s for t in cleaned))} of cleaning"
        )
    return f"{'; '.join(told)}."


def _cost_row(topic: TopicPlan) -> tuple[str, ...]:
    cleaned = bool(topic.temporary)
    work = topic.cleaner_read_bytes + topic.cleaner_write_bytes
    return (
        "" if topic.nothing else str(topic.order + 1),
        topic.topic,
        human_bytes(topic.before.bytes),
        human_bytes(topic.after.bytes) if cleaned else _AS_NOW,
        human_bytes(topic.steady.bytes),
        human_seconds(topic.before.restore_s),
        human_seconds(topic.after.restore_s) if cleaned else _AS_NOW,
        human_seconds(topic.steady.restore_s),
        human_bytes(work) if cleaned else _NO_WORK,
        human_seconds(topic.cleaner_s) if cleaned else _NOT_CLEANED,
    )


def _change_rows(plan: Plan) -> Iterator[tuple[str, ...]]:
    for topic in plan.topics:
        for change in topic.changes:
            yield _change_row(topic, change, _STAYS)
        for change in topic.temporary:
            yield _change_row(topic, change, _PUT_BACK)


def _change_row(topic: TopicPlan, change: Change, how_long: str) -> tuple[str, ...]:
    before = change.value_before if change.before is not None else f"{change.value_before} (broker)"
    return topic.topic, change.name, before, change.after or "(none)", how_long


def _remarks(plan: Plan) -> Iterator[str]:
    """One line per remark; remarks on a topic are indented deeper the less they matter."""
    for topic in plan.topics:
        yield f"{topic.topic}: {topic.why}"
        yield from (f"{_INDENT}Risk: {risk}" for risk in topic.risks)
        if topic.owner and not topic.nothing:
            yield f"{_INDENT}{topic.owner} is patched, for it keeps the topic's settings."
        for change in (*topic.changes, *topic.temporary):
            yield f"{_INDENT}{change.name}={change.after}: {change.why}"
    yield from (f"Not reached: {line}" for line in plan.unmet)
    yield from (f"Advice: {line}" for line in plan.advice)


def _seal(plan: Plan) -> str:
    return f"plan {plan.hash} of run {plan.run}"


def _paragraph(line: str) -> RenderableType:
    plain = line.lstrip()
    return Padding(Text(plain), (0, 0, 0, len(line) - len(plain)))


def _bullet(line: str) -> str:
    plain = line.lstrip()
    return f"{line[: len(line) - len(plain)]}* {_escaped(plain)}"


def _grid(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> Iterator[str]:
    yield _line(head.removeprefix("*") for head in heads)
    yield _line("---:" if head.startswith("*") else "---" for head in heads)
    for row in rows:
        yield _line(_escaped(cell) for cell in row)


def _line(cells: Iterator[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escaped(text: str) -> str:
    """Escapes table borders, emphasis and tags in a name or evidence."""
    for mark in "\\|*_<>`":
        text = text.replace(mark, f"\\{mark}")
    return text.replace("\n", " ")
