"""NULLs that a sink's format cannot tell from default values."""

from __future__ import annotations

import pytest

from holdfast.judge.recompute.blanks import Blanks
from holdfast.judge.values import Match, Untranslatable, same
from holdfast.types.columns.schema import BIGINT, DOUBLE, STRING, Base, Column, SqlType
from holdfast.types.columns.schemas import DataSchema, Schema, SchemaKind
from holdfast.types.statements.sources import Format, Nullable, Sink

_PAIR = SqlType(Base.STRUCT, fields=(Column("X", BIGINT), Column("D", SqlType(Base.DATE))))
_VALUES = (
    Column("N", BIGINT), Column("S", STRING), Column("D", SqlType(Base.DATE)),
    Column("L", SqlType(Base.ARRAY, element=DOUBLE)), Column("P", _PAIR),
    Column("M", SqlType(Base.MAP, element=_PAIR)),
)  # fmt: skip
_NULLS = dict.fromkeys(("N", "S", "D", "L", "P", "M"))


def _sink(nullable: Nullable = Nullable.NONE, form: Format = Format.PROTOBUF) -> Sink:
    return Sink("T", "TABLE", "t", (Column("K", STRING),), _VALUES, form, form, nullable=nullable)


def test_a_table_s_nulls_are_the_default_values_of_plain_fields() -> None:
    rows = {
        ("a",): {**_NULLS, "P": {"X": None, "D": None}, "M": {"k": None}},
        ("b", 60_000): {**_NULLS, "N": 7, "L": [None, 1.5]},
    }
    found = Blanks(_sink()).rows(rows, {})
    assert found[("a",)] == {
        "N": 0, "S": "", "D": None, "L": [], "P": {"X": 0, "D": None}, "M": {"k": None},
    }  # fmt: skip
    assert found["b", 60_000] == {"N": 7, "S": "", "D": None, "L": [0.0, 1.5], "P": None, "M": {}}


@pytest.mark.parametrize("nullable", [Nullable.OPTIONAL, Nullable.WRAPPER])
def test_fields_with_presence_keep_their_nulls_but_lists_have_none(nullable: Nullable) -> None:
    found = Blanks(_sink(nullable)).row(_NULLS, {})
    assert found == {**_NULLS, "L": [], "M": {}}


def test_other_formats_keep_every_null() -> None:
    blanks = Blanks(_sink(form=Format.AVRO))
    assert blanks.rows({(None,): _NULLS}, {}) == {(None,): _NULLS}
    assert blanks.record((None, *_NULLS.values())) == (None, *_NULLS.values())


def test_a_stream_s_record_without_a_value_is_like_one_of_nulls() -> None:
    """But what is not a default value stays."""
    blanks = Blanks(_sink())
    nothing = ("k", *_NULLS.values())
    assert blanks.record(("k", 0, "", None, [], None, {})) == nothing
    assert blanks.record(nothing) == nothing
    assert blanks.record(("k", 1, "", 0, [0.0], None, {})) == ("k", 1, None, 0, [0.0], None, None)
    assert blanks.records({("k", 0, "", None, None, None, None): 2, nothing: 1}) == {nothing: 3}


def test_comparisons_with_several_right_values_are_filled_one_by_one() -> None:
    matches = {"S": Match.ANY_OF, "N": Match.BETWEEN}
    found = Blanks(_sink()).row({"S": ["x", None], "N": None}, matches)
    assert found["S"] == ["x", ""]
    assert same(found["N"], 0, Match.BETWEEN)
    assert not same(found["N"], 1, Match.BETWEEN)
    assert Blanks(_sink()).row({"S": []}, matches)["S"] == [""]
    assert Blanks(_sink()).row({"N": [1, 2]}, matches)["N"] == [1, 2]


def test_what_cannot_be_told_apart_is_no_verdict() -> None:
    with pytest.raises(Untranslatable, match="NULL in a Protobuf key"):
        Blanks(_sink()).rows({(None,): _NULLS}, {})
    given = DataSchema("t-value", Schema(SchemaKind.PROTOBUF, ""), 1, fixed=True)
    sink = Sink(
        "T", "TABLE", "t", (), _VALUES, Format.NONE, Format.PROTOBUF, value_schema=given
    )  # fmt: skip
    with pytest.raises(Untranslatable, match="given by its id"):
        Blanks(sink)
