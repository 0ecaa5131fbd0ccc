"""ksqlDB's SQL types and their counterparts in Arrow and Spark."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "BIGINT",
    "BOOLEAN",
    "DOUBLE",
    "INTEGER",
    "NESTED_MAX",
    "STRING",
    "Base",
    "Column",
    "SqlType",
]

NESTED_MAX = 32  # levels of nested types; Arrow supports 64


class Base(StrEnum):
    """The base types of ksqlDB's SQL."""

    BOOLEAN = "BOOLEAN"
    INTEGER = "INTEGER"
    BIGINT = "BIGINT"
    DOUBLE = "DOUBLE"
    DECIMAL = "DECIMAL"
    STRING = "STRING"
    BYTES = "BYTES"
    DATE = "DATE"
    TIME = "TIME"
    TIMESTAMP = "TIMESTAMP"
    ARRAY = "ARRAY"
    MAP = "MAP"
    STRUCT = "STRUCT"


_SPARK: dict[Base, str] = {
    Base.BOOLEAN: "BOOLEAN",
    Base.INTEGER: "INT",
    Base.BIGINT: "BIGINT",
    Base.DOUBLE: "DOUBLE",
    Base.STRING: "STRING",
    Base.BYTES: "BINARY",
    Base.DATE: "DATE",
    Base.TIME: "INT",
    Base.TIMESTAMP: "TIMESTAMP",
}


@dataclass(frozen=True)
class SqlType:
    """A ksqlDB type; nested types carry their parts.

    `element` is an ARRAY's element or a MAP's value.  `key` is the type of a MAP's keys if it is
    not STRING, otherwise None; `map_key` is the type in either case.
    """

    base: Base
    precision: int = 0
    scale: int = 0
    element: SqlType | None = None
    fields: tuple[Column, ...] = ()
    key: SqlType | None = None

    def __post_init__(self) -> None:
        if self.key is not None and self.key.base is Base.STRING:
            object.__setattr__(self, "key", None)  # one form per type

    @property
    def map_key(self) -> SqlType:
        """The type of a MAP's keys."""
        return self.key or STRING

    @property
    def depth(self) -> int:
        """The depth of nesting: 0 for a type that is not nested."""
        parts = [f.type for f in self.fields]
        parts += [t for t in (self.element, self.key) if t is not None]
        nested = self.base in (Base.ARRAY, Base.MAP, Base.STRUCT)
        return int(nested) + max((t.depth for t in parts), default=0)

    def __str__(self) -> str:
        if self.base is Base.DECIMAL:
            return f"DECIMAL({self.precision}, {self.scale})"
        if self.base is Base.ARRAY:
            return f"ARRAY<{self.element}>"
        if self.base is Base.MAP:
            return f"MAP<{self.map_key}, {self.element}>"
        if self.base is Base.STRUCT:
            return "STRUCT<" + ", ".join(f"{f.name} {f.type}" for f in self.fields) + ">"
        return self.base.value

    @property
    def quoted(self) -> str:
        """The type's text with field names in backticks, as ksqlDB writes it in schemas."""
        if self.base is Base.ARRAY and self.element is not None:
            return f"ARRAY<{self.element.quoted}>"
        if self.base is Base.MAP and self.element is not None:
            return f"MAP<{self.map_key.quoted}, {self.element.quoted}>"
        if self.base is Base.STRUCT:
            return "STRUCT<" + ", ".join(f.quoted for f in self.fields) + ">"
        return str(self)

    @property
    def numeric(self) -> bool:
        return self.base in (Base.INTEGER, Base.BIGINT, Base.DOUBLE, Base.DECIMAL)

    def arrow(self) -> pa.DataType:
        """The Arrow type that carries this type between layers."""
        import pyarrow as pa  # 30 MB that a process that only plans reads does not need

        if self.base is Base.DECIMAL:
            return pa.decimal128(self.precision, self.scale)
        if self.base is Base.STRUCT:
            return pa.struct([pa.field(f.name, f.type.arrow()) for f in self.fields])
        if self.element is not None and self.base is Base.ARRAY:
            return pa.list_(self.element.arrow())
        if self.element is not None and self.base is Base.MAP:
            return pa.map_(self.map_key.arrow(), self.element.arrow())
        return _arrow()[self.base]

    def spark(self) -> str:
        """The Spark DDL text of this type."""
        if self.base is Base.DECIMAL:
            return f"DECIMAL({self.precision},{self.scale})"
        if self.base is Base.STRUCT:
            inner = ", ".join(f"`{f.name}`: {f.type.spark()}" for f in self.fields)
            return f"STRUCT<{inner}>"
        if self.element is not None and self.base is Base.ARRAY:
            return f"ARRAY<{self.element.spark()}>"
        if self.element is not None and self.base is Base.MAP:
            return f"MAP<{self.map_key.spark()}, {self.element.spark()}>"
        return _SPARK[self.base]


@dataclass(frozen=True)
class Column:
    """A named, typed column.  `name` is already resolved: upper-case unless it was quoted."""

    name: str
    type: SqlType

    def __str__(self) -> str:
        return f"{self.name} {self.type}"

    @property
    def quoted(self) -> str:
        """See `SqlType.quoted`."""
        return f"`{self.name}` {self.type.quoted}"


BOOLEAN = SqlType(Base.BOOLEAN)
INTEGER = SqlType(Base.INTEGER)
BIGINT = SqlType(Base.BIGINT)
DOUBLE = SqlType(Base.DOUBLE)
STRING = SqlType(Base.STRING)


@cache
def _arrow() -> dict[Base, pa.DataType]:
    import pyarrow as pa

    return {
        Base.BOOLEAN: pa.bool_(),
        Base.INTEGER: pa.int32(),
        Base.BIGINT: pa.int64(),
        Base.DOUBLE: pa.float64(),
        Base.STRING: pa.string(),
        Base.BYTES: pa.binary(),
        Base.DATE: pa.date32(),
        Base.TIME: pa.int32(),  # milliseconds of the day, as in ksqlDB's JSON
        Base.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    }
