"""DuckDB's names of types, and the text of a value of a type."""

from __future__ import annotations

import pytest

from holdfast.types.columns.schema import BIGINT, STRING, Base, Column, SqlType
from holdfast.types.statements.expressions import in_type, type_name

WHEN = SqlType(Base.TIMESTAMP)


def array(element: SqlType) -> SqlType:
    return SqlType(Base.ARRAY, element=element)


def struct(**fields: SqlType) -> SqlType:
    return SqlType(Base.STRUCT, fields=tuple(Column(n, t) for n, t in fields.items()))


@pytest.mark.parametrize(
    ("sql_type", "name"),
    [
        (STRING, "VARCHAR"),
        (array(array(BIGINT)), "BIGINT[][]"),
        (SqlType(Base.MAP, element=SqlType(Base.BYTES)), "MAP(VARCHAR, BLOB)"),
        (struct(a=BIGINT, B=STRING), 'STRUCT("a" BIGINT, "B" VARCHAR)'),
        (struct(), 'STRUCT("no field" BOOLEAN)'),
    ],
)
def test_types_have_duckdbs_names(sql_type: SqlType, name: str) -> None:
    assert type_name(sql_type) == name
    assert in_type("x", sql_type) == f"TRY(CAST(x AS {name}))"


@pytest.mark.parametrize(
    "sql_type",
    [
        WHEN,
        array(WHEN),
        SqlType(Base.MAP, element=WHEN),
        struct(a=BIGINT, b=WHEN),
        array(struct(a=array(WHEN))),
    ],
)
def test_a_time_is_not_cast_which_would_use_the_sessions_zone(sql_type: SqlType) -> None:
    assert in_type("x", sql_type) == "TRY(x)"
