"""Aliases of the reader's schema: the names that its fields had in schemas of earlier writers."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.tasks.registered.avro_schema import AvroNode

__all__ = ["rename_by_aliases"]


def rename_by_aliases(writer: AvroNode, reader: AvroNode) -> None:
    """Gives the writer's fields the names that the reader's aliases say; a field's own name wins.

    Args:
        writer: is changed.
        reader: the schema that the columns come from.
    """
    _rename(writer, reader, set())


def _rename(writer: AvroNode, reader: AvroNode, done: set[tuple[int, int]]) -> None:
    for own, other in _pairs(writer, reader):
        if (id(own), id(other)) in done:  # a record within itself
            continue
        done.add((id(own), id(other)))
        if own.items is not None and other.items is not None:
            _rename(own.items, other.items, done)
        _rename_fields(own, other)
        fields = {each.name: each.type for each in other.fields}
        for each in own.fields:
            if each.name in fields:
                _rename(each.type, fields[each.name], done)


def _rename_fields(writer: AvroNode, reader: AvroNode) -> None:
    names = {each.name for each in reader.fields}
    for field in reader.fields:
        there = {each.name: each for each in writer.fields}
        former = next((a for a in field.aliases if a in there and a not in names), None)
        if field.name not in there and former is not None:
            there[former].name = field.name


def _pairs(writer: AvroNode, reader: AvroNode) -> Iterator[tuple[AvroNode, AvroNode]]:
    """The types that may be one another: of unions, the only ones of a kind, or of one name."""
    others = _types(reader)
    for own in _types(writer):
        alike = [other for other in others if other.kind == own.kind]
        if len(alike) > 1:
            alike = [other for other in alike if _simple(other) == _simple(own)]
        yield from ((own, other) for other in alike[:1])


def _types(node: AvroNode) -> list[AvroNode]:
    return node.branches if node.kind == "union" else [node]


def _simple(node: AvroNode) -> str:
    return node.name.rpartition(".")[2]
