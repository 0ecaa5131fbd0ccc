"""The contract of a schema language, and which format uses which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import pyarrow as pa

from holdfast.tasks.registered.avro import Avro
from holdfast.tasks.registered.json_schema.language import JsonSchema
from holdfast.tasks.registered.protobuf import Protobuf
from holdfast.types.columns.schema import Column
from holdfast.types.columns.schemas import DataSchema, Schema
from holdfast.types.statements.sources import Format, Nullable

__all__ = ["LANGUAGES", "Language", "encode_registered"]


class Language(Protocol):
    """The part of a format with a schema registry beside decoding (`holdfast.ingest.formats`).

    `unwrapped`: the schema is that of the only column, not of a record of columns.
    """

    unwraps: bool
    """Whether there are data that are not a record."""
    inherits_name: bool
    """Whether a query's sink has the full name of its source, if it has no other."""

    def columns_of(
        self, schema: Schema, full_name: str, *, unwrapped: bool, key: bool, exact: bool = False
    ) -> tuple[Column, ...]:
        """The columns that ksqlDB infers from a schema; of unwrapped ones ROWKEY or ROWVAL.

        Args:
            exact: names stay as they are written, as with a schema's id; else in upper case.

        Raises:
            SchemaRefused: it is malformed, or holds no column.
            SchemaMissing: it has nothing of the full name.
        """

    def full_names(self, schema: Schema) -> Sequence[str]:
        """Names of the records or messages among which a full name chooses; none: no choice.

        Raises:
            SchemaRefused: it is malformed.
        """

    def name_in(self, schema: Schema, data: bytes) -> str:
        """The full name that data behind a schema's id choose themselves; empty: they choose none.

        Raises:
            SchemaRefused: the schema is malformed, or has not what they name.
        """

    def schema_of(
        self, columns: Sequence[Column], full_name: str, *, unwrapped: bool,
        nullable: Nullable = Nullable.NONE,
    ) -> Schema:  # fmt: skip
        """The schema that ksqlDB would register for columns.

        Args:
            full_name: of the record or message; empty: ksqlDB's own.
            nullable: how it tells NULL, in languages that have a choice.

        Raises:
            SchemaRefused: the language has no place for the columns.
        """

    def encode(
        self, columns: Sequence[Column], arrays: Sequence[pa.Array], data: DataSchema | None,
        *, unwrapped: bool,
    ) -> Sequence[bytes | None]:  # fmt: skip
        """One payload per row; a row whose single unwrapped column is NULL has none.

        Raises:
            SchemaRefused: the schema has no id, or cannot hold the columns.
        """


LANGUAGES: Mapping[Format, Language] = {
    Format.AVRO: Avro(),
    Format.JSON_SR: JsonSchema(),
    Format.PROTOBUF: Protobuf(),
}


def encode_registered(
    form: Format,
    columns: Sequence[Column],
    arrays: Sequence[pa.Array],
    data: DataSchema | None,
    *,
    unwrapped: bool,
) -> Sequence[bytes | None]:
    """Payloads of one row each, see `Language.encode`."""
    return LANGUAGES[form].encode(columns, arrays, data, unwrapped=unwrapped)
