"""A Python function's name in SQL says its types, whatever they are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.tasks.functions.names import calls_in, split_name, sql_name
from holdfast.types.columns.schema import Base, Column, SqlType

_SIMPLE = [Base.BOOLEAN, Base.INTEGER, Base.BIGINT, Base.DOUBLE, Base.STRING, Base.BYTES,
           Base.DATE, Base.TIME, Base.TIMESTAMP]  # fmt: skip


def _decimals() -> st.SearchStrategy[SqlType]:
    pairs = st.tuples(st.integers(1, 38), st.integers(0, 38)).filter(lambda p: p[1] <= p[0])
    return pairs.map(lambda p: SqlType(Base.DECIMAL, precision=p[0], scale=p[1]))


def _nested(inner: st.SearchStrategy[SqlType]) -> st.SearchStrategy[SqlType]:
    columns = st.builds(Column, st.text(min_size=1, max_size=5), inner)
    return st.one_of(
        inner.map(lambda t: SqlType(Base.ARRAY, element=t)),
        st.tuples(inner, inner).map(lambda p: SqlType(Base.MAP, key=p[0], element=p[1])),
        st.lists(columns, max_size=3).map(lambda c: SqlType(Base.STRUCT, fields=tuple(c))),
    )


TYPES = st.recursive(
    st.one_of(st.sampled_from(_SIMPLE).map(SqlType), _decimals()), _nested, max_leaves=6
)


@given(result=TYPES, args=st.lists(TYPES, max_size=3))
def test_a_name_says_its_types(result: SqlType, args: list[SqlType]) -> None:
    name = sql_name("SPLIT_TO_MAP", result, args)
    assert split_name(name) == ("SPLIT_TO_MAP", result, tuple(args))
    assert calls_in(f"a + {name}(`X`, {name}('y'))") == [name]


def test_a_literal_may_look_like_a_call() -> None:
    name = sql_name("SPLIT", SqlType(Base.STRING), [])
    assert calls_in(f"'hf_x(' || 'hf_split__c1x' || '{name}' || 'hf_y__r3x(' || {name}(1)") == [
        name
    ]


@pytest.mark.parametrize("name", ["hf_split", "hf_split__", "hf_split__sq"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"says no types|no type is written"):
        split_name(name)
