"""Fields of a writer's Avro schema by the names of the table's own schema: the judge's reading."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from holdfast.types.columns.schemas import Schema

__all__ = ["Renamer"]

_NAMED = ("record", "error", "enum", "fixed")


class Renamer:
    """Knows the aliases of one reader's schema."""

    def __init__(self, reader: Schema) -> None:
        texts = [text for _, text in reader.references]
        parts = [json.loads(text) for text in (*texts, reader.text)]
        self._named = {name: each for part in parts for name, each in _named(part)}
        self._root = parts[-1]

    def renamed(self, writer: Any) -> Any:
        """A writer's schema with the reader's names in place of aliases."""
        return self._type(writer, self._root)

    def _type(self, writer: Any, reader: Any) -> Any:
        if isinstance(writer, list):
            return [self._type(each, reader) for each in writer]
        if not isinstance(writer, dict):
            return writer
        if isinstance(writer["type"], dict | list):
            return {**writer, "type": self._type(writer["type"], reader)}
        other = self._same(writer, reader)
        for part in ("items", "values"):
            if part in writer and part in other:
                return {**writer, part: self._type(writer[part], other[part])}
        if "fields" in writer and "fields" in other:
            return {**writer, "fields": list(self._fields(writer["fields"], other["fields"]))}
        return writer

    def _same(self, writer: Mapping[str, Any], reader: Any) -> Mapping[str, Any]:
        """The reader's type in the place of the writer's; empty: there is none."""
        found = [each for each in self._types(reader) if each.get("type") == writer["type"]]
        if len(found) > 1:
            found = [each for each in found if _simple(each) == _simple(writer)]
        return found[0] if found else {}

    def _types(self, reader: Any) -> Iterator[Mapping[str, Any]]:
        if isinstance(reader, list):
            for each in reader:
                yield from self._types(each)
        elif isinstance(reader, str):
            if reader.rpartition(".")[2] in self._named:
                yield self._named[reader.rpartition(".")[2]]
        elif isinstance(reader["type"], dict | list):
            yield from self._types(reader["type"])
        else:
            yield reader

    def _fields(self, own: list[Any], others: list[Any]) -> Iterator[Any]:
        there, names = {each["name"] for each in own}, {each["name"] for each in others}
        former: dict[str, str] = {}
        for other in others:
            known = [a for a in other.get("aliases", ()) if a in there - names - former.keys()]
            if known and other["name"] not in there:
                former[known[0]] = other["name"]
        types = {each["name"]: each["type"] for each in others}
        for each in own:
            name = former.get(each["name"], each["name"])
            kind = self._type(each["type"], types[name]) if name in types else each["type"]
            yield {**each, "name": name, "type": kind}


def _named(schema: Any) -> Iterator[tuple[str, Any]]:
    """The named types within a schema, by their simple names."""
    if isinstance(schema, list):
        for each in schema:
            yield from _named(each)
    elif isinstance(schema, dict):
        if "name" in schema and schema.get("type") in _NAMED:
            yield _simple(schema), schema
        for part in ("type", "items", "values", "fields"):
            yield from _named(schema.get(part))


def _simple(schema: Mapping[str, Any]) -> str:
    return str(schema.get("name", "")).rpartition(".")[2]
