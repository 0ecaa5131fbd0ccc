"""How answers begin and end in /query's form."""

from __future__ import annotations

import orjson

from holdfast.serve.http.forms import RowsForm
from holdfast.serve.queries import LIMIT_REACHED, Answer
from holdfast.serve.query.iterators import no_batches
from holdfast.types.columns.schema import BIGINT, INTEGER, STRING, Base, Column, SqlType

_INNER = SqlType(Base.STRUCT, fields=(Column("a b", INTEGER), Column("c", STRING)))
_MAP = SqlType(Base.MAP, element=SqlType(Base.ARRAY, element=_INNER), key=STRING)
_COLUMNS = (Column("ID", _INNER), Column("M", _MAP), Column("WINDOWSTART", BIGINT))


def _schema(keys: frozenset[str]) -> str:
    answer = Answer(_COLUMNS, no_batches(), keys=keys)
    schema: str = orjson.loads(RowsForm().head(answer) + b"]")[0]["header"]["schema"]
    return schema


def test_the_header_marks_keys_and_quotes_every_name() -> None:
    inner = "STRUCT<`a b` INTEGER, `c` STRING>"
    assert _schema(frozenset({"ID", "WINDOWSTART"})) == (
        f"`ID` {inner} KEY, `M` MAP<STRING, ARRAY<{inner}>>, `WINDOWSTART` BIGINT KEY"
    )
    assert " KEY" not in _schema(frozenset())


def test_the_last_message_is_the_answers() -> None:
    form = RowsForm()
    assert form.end(Answer((), no_batches())) == b"]"
    ended = form.end(Answer((), no_batches(), final_message=LIMIT_REACHED))
    assert orjson.loads(b"[0" + ended)[1:] == [{"finalMessage": "Limit Reached"}]
