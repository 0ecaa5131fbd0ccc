"""Compares responses with a case's expectations, by ksqlDB's rules.

A case need not name every field of an object.  Rows may come in any order unless the case says
otherwise; `"name|starts_with"` is a field that begins with the text; `{STATEMENT}` stands for the
statement that the response belongs to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.testing.cases import Rest, RestError
from holdfast.testing.compare import has_words, same
from holdfast.testing.json_text import dumps

__all__ = ["Answered", "wrong_error", "wrong_responses"]

_STATEMENT = "{STATEMENT}"
_STARTS_WITH = "starts_with"
_TYPES = {"KsqlStatementErrorMessage": ("statement_error",)}
_ANY_ERROR = ("statement_error", "generic_error")


@dataclass(frozen=True)
class Answered:
    """One answer of a server, or of the job for a statement that it carried out.

    Attributes:
        kind: `admin`, `query` or `error`.
        body: decoded JSON.
        status: HTTP status.
    """

    kind: str
    body: Any
    status: int = 200


@dataclass
class _Rows:
    """Rows of one response that may come in any order."""

    expected: list[Any] = field(default_factory=list)
    actual: list[Any] = field(default_factory=list)


def wrong_responses(rest: Rest, answers: Sequence[Answered]) -> list[str]:
    """The mismatches, one line each; there may be more answers than expectations."""
    if len(answers) < len(rest.responses):
        return [f"There are {len(answers)} responses, {len(rest.responses)} were expected."]
    return [
        line
        for at, (response, answer) in enumerate(zip(rest.responses, answers, strict=False))
        for kind, expected in response.items()
        for line in _Response(rest, at, kind).wrong(expected, answer)
    ]


class _Response:
    """One expected response."""

    def __init__(self, rest: Rest, at: int, kind: str) -> None:
        self._statement = rest.statements[at] if at < len(rest.statements) else _STATEMENT
        self._in_order = rest.in_order
        self._kind = kind
        self._where = f"responses[{at}]->{kind}"

    def wrong(self, expected: Any, answer: Answered) -> Iterator[str]:
        if answer.kind != self._kind:
            yield f"{self._where}: the response is {answer.kind}: {dumps(answer.body)}"
        elif self._kind == "admin":
            yield from self._fields(expected, answer.body, self._where, _Rows())
        elif len(expected) != len(answer.body):
            told = "\n  ".join(map(dumps, answer.body))
            yield f"{self._where}: {len(expected)} parts were expected, these came:\n  {told}"
        else:
            yield from self._parts(expected, answer.body)

    def _parts(self, expected: Sequence[Any], actual: Sequence[Any]) -> Iterator[str]:
        rows = _Rows()
        for at, (want, have) in enumerate(zip(expected, actual, strict=True)):
            yield from self._fields(want, have, f"{self._where}[{at}]", rows)
        left = list(rows.expected)
        for row in rows.actual:
            found = next((at for at, want in enumerate(left) if same(row, want)), None)
            if found is None:
                missing = " or ".join(map(dumps, left)) or "none more"
                yield f"{self._where}: row {dumps(row)} was not expected, but {missing}"
            else:
                del left[found]

    def _fields(
        self, expected: Mapping[str, Any], actual: Any, where: str, rows: _Rows
    ) -> Iterator[str]:
        for key, value in expected.items():
            name, _, operator = key.partition("|")
            place = f"{where}->{name}"
            if not isinstance(actual, dict) or name not in actual:
                yield f"{place} is not there, but {dumps(actual)}"
                continue
            want, have = self._filled(value), actual[name]
            if isinstance(want, dict):
                yield from self._fields(want, have, place, rows)
            elif name == "columns" and where.endswith("->row") and not self._in_order:
                rows.expected.append(want)
                rows.actual.append(have)
            elif not _as_expected(have, want, operator):
                yield f"{place} is {dumps(have)}, not {dumps(want)}"

    def _filled(self, value: Any) -> Any:
        return value.replace(_STATEMENT, self._statement) if isinstance(value, str) else value


def _as_expected(actual: Any, expected: Any, operator: str) -> bool:
    if operator == _STARTS_WITH:
        return isinstance(actual, str) and actual.startswith(expected)
    return same(actual, expected)


def wrong_error(expected: RestError, answer: Answered, statement: str) -> tuple[str, bool | None]:
    """Why an error is not the expected one (empty: it is), and whether its words match.

    Args:
        statement: the case's last statement, which ksqlDB's message repeats.
    """
    body = answer.body
    name = expected.type.rpartition(".")[2]
    words = has_words(body["message"], expected.message) if expected.message else None
    if expected.status not in (None, answer.status):
        return f"The status is {answer.status}, not {expected.status}: {body['message']}", words
    types = _TYPES.get(name, _ANY_ERROR)
    if body["@type"] not in types:
        return f"The error is a {body['@type']}, not a {types[0]}: {body['message']}", words
    if name in _TYPES and statement not in body.get("statementText", ""):
        return f"The error does not name the last statement: {dumps(body)}", words
    return "", words
