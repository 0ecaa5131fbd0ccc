"""The rules and refusals that all schema languages share, by ksqlDB's words."""

from __future__ import annotations

from holdfast.errors import SchemaRefused
from holdfast.types.columns.schema import Base, Column, SqlType
from holdfast.types.columns.schemas import DataSchema
from holdfast.types.statements.sources import Format

__all__ = [
    "ENCODERS_MAX",
    "MAP_KEYS",
    "alone",
    "anonymous",
    "as_written",
    "id_of",
    "without_columns",
]

ENCODERS_MAX = 1_000  # kept; with more schemas some are made again
MAP_KEYS = (Base.STRING, Base.INTEGER, Base.BIGINT, Base.BOOLEAN)


def as_written(name: str) -> str:
    """The name of a column where names stay as they are."""
    return name


def alone(kind: SqlType | None, *, key: bool) -> tuple[Column, ...]:
    """The column of a schema that is no record; none for a type without a SQL type."""
    return () if kind is None else (Column("ROWKEY" if key else "ROWVAL", kind),)


def anonymous(label: str, wanted: str) -> SchemaRefused:
    """The refusal of a schema that is no record, but `label`."""
    return SchemaRefused(
        "Schema returned from schema registry is anonymous type.",
        cause=f"it is {label}, not {wanted} for each column",
        action="To use this schema with ksqlDB, set 'WRAP_SINGLE_VALUE=false' in the WITH "
        "clause properties.",
    )


def without_columns(label: str) -> SchemaRefused:
    """The refusal of a schema that holds nothing with a SQL type."""
    return SchemaRefused(
        "Schema does not include any columns with types that ksqlDB supports.",
        cause=f"it is {label}",
    )


def id_of(data: DataSchema | None, form: Format) -> DataSchema:
    """The schema, which has an id.

    Raises:
        SchemaRefused: it has none.
    """
    if data is None or data.id is None:
        raise SchemaRefused(
            f"A record cannot be written in {form}: its schema has no id.",
            cause="it was not registered at the start",
        )
    return data
