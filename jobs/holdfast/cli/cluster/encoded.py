"""JSON objects as records of a stream or table: its columns, in its formats."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from holdfast.errors import Refused
from holdfast.ingest.formats.json.decoder import JsonDecoder
from holdfast.runtime.schemas import registered
from holdfast.tasks.evaluate.sink_records import SinkRecords
from holdfast.types.columns.schemas import Schemas
from holdfast.types.statements.topology import Source, Topology

__all__ = ["Encoded", "declared_source", "encoded"]

_CHUNK = 1_000  # records encoded together


@dataclass(frozen=True, slots=True)
class Encoded:
    """A record's key and value, in the formats of its stream or table."""

    key: bytes | None
    value: bytes | None


def declared_source(topology: Topology, name: str, schemas: Schemas | None) -> Source:
    """The declared stream or table, with the ids of its schemas; registers those that are new.

    Raises:
        Refused: the statements declare none of that name, or one with windowed keys.
        SchemaRefused: a schema is not compatible with what its subject has.
        RegistryUnavailable: the registry does not answer.
    """
    known = {s.name: s for s in topology.sources}
    source = known.get(name) or known.get(name.upper())
    if source is None:
        raise Refused(
            f"The statements declare no stream or table {name}.",
            action=f"they declare: {', '.join(sorted(known)) or 'none'}.",
        )
    if source.window is not None:
        raise Refused(
            f"The keys of {source.name} are windowed, and a JSON object says no window.",
            action="write to a stream or table without WINDOW_TYPE.",
        )
    return source if schemas is None else registered(source, schemas)


def encoded(objects: Iterable[bytes | None], source: Source, label: str) -> Iterator[Encoded]:
    """The records whose columns are the fields of JSON objects.

    Raises:
        Refused: one is no JSON object that the columns can be read from; `label` and its
            number, from 1 on, are named.
        SchemaRefused: the source's schema cannot hold a value.
    """
    columns, keys = source.columns, len(source.key_columns)
    decoder, records = JsonDecoder(columns), SinkRecords(source.as_sink())
    waiting, before = iter(objects), 0
    while chunk := list(itertools.islice(waiting, _CHUNK)):
        found = decoder.decode(chunk)
        if found.bad:
            at, reason = min(found.bad.items())
            raise Refused(
                f"{label}, record {before + at + 1}, is not of {source.name}: {reason}.",
                action="correct it; the records before it may be written already.",
            )
        made = records.values(found.columns[keys:])
        names = records.keys(found.columns[:keys]) if keys else [None] * len(chunk)
        yield from map(Encoded, names, made)
        before += len(chunk)
