"""The words of `explain`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from holdfast.tasks.registered.proto.columns import file_of, proto_text
from holdfast.types.columns.schema import Column
from holdfast.types.statements.expressions import Expression
from holdfast.types.statements.topology import Format, Sink, Source
from holdfast.types.words import counted

__all__ = ["columns", "duration", "line", "messages", "text_of", "topic"]

_LABEL = 13
_UNITS = ((86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute"), (1_000, "second"))


def line(label: str, text: str) -> str:
    """One labelled line."""
    return f"    {label:<{_LABEL}}{text}"


def columns(of: Iterable[Column]) -> str:
    """Columns with their types."""
    return ", ".join(str(c) for c in of)


def messages(of: Source | Sink) -> Iterator[str]:
    """The .proto text of keys and values that are messages: what other programs need for them."""
    parts = (
        ("key", of.key_columns, of.key_format, of.key_nullable),
        ("value", of.value_columns, of.value_format, of.nullable),
    )
    for part, declared, form, nullable in parts:
        if form is Format.PROTOBUF_NOSR and declared:
            text = proto_text(file_of(declared, nullable), for_protoc=True)
            first, *others = map(str.rstrip, text.splitlines())
            yield line(f"{part}.proto", first)
            yield from (line("", each) if each else "" for each in others)


def duration(length_ms: int) -> str:
    """A length of time in its largest whole unit."""
    for unit_ms, noun in _UNITS:
        if length_ms and length_ms % unit_ms == 0:
            return counted(length_ms // unit_ms, noun)
    return f"{length_ms} ms"


def text_of(condition: Expression | None) -> str:
    """A condition, if there is one."""
    return "none" if condition is None else condition.sql


def topic(of: Source | Sink) -> str:
    """A topic with its partitions, formats and windows."""
    parts = [of.topic]
    if of.partitions is not None:
        parts.append(counted(of.partitions, "partition"))
    if of.replicas is not None:
        parts.append(counted(of.replicas, "replica"))
    key = of.key_format if of.key_columns else Format.NONE
    parts += [f"key {key}", f"value {of.value_format}"]
    if of.window is not None:
        size = f" of {duration(of.window_size_ms)}" if of.window_size_ms else ""
        parts.append(f"{of.window} windows{size}")
    if isinstance(of, Sink) and of.internal:
        parts.append("internal")
    return ", ".join(parts)
