"""A user's scalar function is called before and after the shuffle; its failures are NULL."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from holdfast import function
from holdfast.errors import InvalidStatement
from holdfast.sql import compile_text
from holdfast.tasks.aggregates.user import load_functions
from holdfast.tasks.evaluate.projected import Projected
from holdfast.types.statements.topology import AggregateStep
from tests.unit.sql.after import last_value

FILE = """
from holdfast import function

@function("INITIALS", args=["STRING", "INTEGER"], returns="STRING")
def initials(name, count):
    "The first letters of so many words."
    return "".join(word[0] for word in name.split()[:count]) if count else name[count]["x"]
"""
SOURCE = """
CREATE STREAM s (id INT KEY, name STRING, n INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');
"""
SCHEMA = pa.schema(
    [
        ("ID", pa.int32()), ("NAME", pa.string()), ("N", pa.int32()),
        ("__timestamp", pa.int64()), ("__tombstone", pa.bool_()),
    ]
)  # fmt: skip


@pytest.fixture
def initials(tmp_path: Path) -> None:
    path = tmp_path / "initials.py"
    path.write_text(FILE)
    load_functions([str(path)])


@pytest.mark.usefixtures("initials")
def test_before_the_shuffle() -> None:
    text = SOURCE + "CREATE STREAM o AS SELECT id, initials(name, n) AS i FROM s;"
    query = compile_text(text).queries[0]
    rows = [(1, "ada m lovelace", 2), (2, None, 1), (3, "x", 0)]
    read = [dict(zip(SCHEMA.names, (*row, 0, False), strict=True)) for row in rows]
    found = Projected(query).rows(pa.RecordBatch.from_pylist(read, SCHEMA))
    assert found["k0"].to_pylist() == [1, 2, 3]
    assert found["v0"].to_pylist() == ["am", None, None]


@pytest.mark.usefixtures("initials")
def test_after_the_aggregation() -> None:
    text = SOURCE + "CREATE TABLE o AS SELECT id, initials(MAX(name), 1) AS i FROM s GROUP BY id;"
    step = compile_text(text).queries[0].step
    assert isinstance(step, AggregateStep)
    frame = {"ID": pa.array([1, 2]), step.aggregates[0].name: pa.array(["bo", None])}
    assert last_value(step, frame).to_pylist() == ["b", None]


def test_arrays_maps_and_decimals() -> None:
    @function(
        "TALLY", args=["ARRAY<VARCHAR>", "DECIMAL(4, 1)"], returns="MAP<STRING, DECIMAL(4, 1)>"
    )
    def tally(words: list[str], weight: Decimal) -> dict[str, Decimal]:
        return {word: weight * words.count(word) for word in words}

    text = SOURCE + (
        "CREATE TABLE o AS SELECT id, TALLY(COLLECT_LIST(name), CAST(1.5 AS DECIMAL(4, 1))) AS t "
        "FROM s GROUP BY id;"
    )
    step = compile_text(text).queries[0].step
    assert isinstance(step, AggregateStep)
    frame = {"ID": pa.array([1]), step.aggregates[0].name: pa.array([["a", "b", "a"]])}
    assert last_value(step, frame).to_pylist() == [[("a", Decimal("3.0")), ("b", Decimal("1.5"))]]


@pytest.mark.usefixtures("initials")
def test_wrong_arguments_are_refused() -> None:
    text = SOURCE + "CREATE STREAM o AS SELECT id, initials(n, n) AS i FROM s;"
    with pytest.raises(InvalidStatement, match=r"INITIALS\(STRING, INTEGER\)"):
        compile_text(text)


@pytest.mark.parametrize(("name", "args"), [("two words", ["STRING"]), ("NONE_AT_ALL", [])])
def test_what_cannot_be_registered_is_refused(name: str, args: list[str]) -> None:
    with pytest.raises(ValueError, match="needs a plain name and at least one argument"):
        function(name, args=args, returns="STRING")(str)
