"""The table of properties, printed by `holdfast config` and shown in tuning.md."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.config.properties import PROPERTIES, default_text

__all__ = ["HEADER", "markdown", "rows"]

HEADER = ("property", "default", "takes", "meaning")

_LIMIT_ROW = (
    "ksql.functions.<name>.limit",
    "",
    "a whole number",
    "longest list of COLLECT_LIST or COLLECT_SET (SET only)",
)
_KAFKA_ROW = ("kafka.*", "", "a librdkafka setting", "given to every Kafka client as it is")


def rows() -> Iterator[tuple[str, str, str, str]]:
    """One row per property: name, default, what it takes, meaning."""
    for prop in PROPERTIES.values():
        yield prop.name, default_text(prop), prop.kind.allowed, prop.doc
    yield _LIMIT_ROW
    yield _KAFKA_ROW


def markdown() -> str:
    """The table in Markdown, ending in a newline."""
    lines = ["| " + " | ".join(HEADER) + " |", "|" + "---|" * len(HEADER)]
    for name, default, takes, meaning in rows():
        quoted = f"`{default}`" if default and " " not in default else default
        lines.append(f"| `{name}` | {quoted} | {takes} | {meaning} |")
    return "\n".join(lines) + "\n"
