from __future__ import annotations

from typing import Any

import orjson
import pytest

from holdfast.serve.http.ksql.queries import accepted
from holdfast.serve.http.values import ready_rows, rows_of
from holdfast.types.columns.schema import BIGINT, DOUBLE, STRING, Base, Column, SqlType
from tests.support.serve.http_world import EVERY_TYPE, TYPED_JSON, TYPED_ROW, batch_of


def test_rows_and_batches_are_written_alike() -> None:
    mapped = [*TYPED_ROW[:8], list(TYPED_ROW[8].items()), TYPED_ROW[9]]
    nothing: list[Any] = [None] * len(EVERY_TYPE)
    from_batch = rows_of(batch_of(EVERY_TYPE, [mapped, nothing]), EVERY_TYPE)
    rows: list[list[Any]] = [TYPED_ROW, nothing]
    from_rows = ready_rows(rows, EVERY_TYPE)
    for found in (from_batch, from_rows):
        assert orjson.loads(orjson.dumps(found)) == [TYPED_JSON, nothing]


def test_rows_that_are_ready_are_not_copied() -> None:
    rows: list[list[Any]] = [["a", 1], [None, None]]
    assert ready_rows(rows, [Column("A", STRING), Column("B", BIGINT)]) is rows


def test_what_json_has_no_number_for_is_its_name() -> None:
    rows = [[float("inf")], [float("-inf")], [float("nan")], [0.5]]
    found = ready_rows(rows, [Column("D", DOUBLE)])
    assert [row[0] for row in found] == ["Infinity", "-Infinity", "NaN", 0.5]


def test_keys_of_maps_become_text() -> None:
    kind = SqlType(Base.MAP, element=BIGINT, key=BIGINT)
    assert ready_rows([[{7: 1}]], [Column("M", kind)]) == [[{"7": 1}]]


@pytest.mark.parametrize(
    ("header", "kind"),
    [
        ("", "a/x"),
        ("*/*", "a/x"),
        ("b/y", "b/y"),
        ("b/y;q=0.5, a/x;q=0.7", "a/x"),
        ("B/Y ; q=1", "b/y"),
        ("b/y;q=what", "a/x"),
        (",;,=", "a/x"),
    ],
)
def test_the_kind_a_client_likes_best(header: str, kind: str) -> None:
    assert accepted(header, ("a/x", "b/y")) == kind
