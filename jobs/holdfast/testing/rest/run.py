"""Runs a REST case: statements and inputs as in any case, then requests to a query server."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from holdfast.errors import HoldfastError
from holdfast.serve.http.problems import problem
from holdfast.sql.parse.script import Script
from holdfast.sql.parse.statements import (
    Define,
    InsertValues,
    SetProperty,
    Undefine,
    UnsetProperty,
)
from holdfast.sql.parse.text import Definitions, Place, parse, statement_places
from holdfast.testing.cases import Case, Rest
from holdfast.testing.phases import Life
from holdfast.testing.rest.cases import is_looking
from holdfast.testing.rest.matching import Answered, wrong_error, wrong_responses
from holdfast.testing.rest.server import AskedServer, asked_server
from holdfast.testing.topics import Topics
from holdfast.types.statements.topology import Topology

__all__ = ["Judged", "judged_answers", "judged_refusal"]

# The settings of the server in ksqlDB's own cases.
_DEFAULTS = {"auto.offset.reset": "earliest", "ksql.query.pull.table.scan.enabled": "true"}
_SILENT = (Define, InsertValues, SetProperty, Undefine, UnsetProperty)
_DONE = {"@type": "currentStatus", "commandStatus": {"status": "SUCCESS"}}


@dataclass(frozen=True)
class Judged:
    """The mismatches, one line each; `words` and `said` (the message) are of an expected error."""

    wrong: tuple[str, ...] = ()
    words: bool | None = None
    said: str = ""


def judged_answers(case: Case, topology: Topology, topics: Topics, life: Life) -> Judged:
    """Sends a REST case's requests to a query server and judges the answers.

    Args:
        topics, life: their state after the case's records were processed.
    """
    rest = case.rest
    if rest is None:
        return Judged()
    answers = asyncio.run(_answers(case, rest, topology, topics, life))
    errors = [a for a in answers if a.kind == "error"]
    if rest.error is None:
        refused = [f"A statement was refused: {a.body['message']}" for a in errors]
        return Judged(tuple(refused or wrong_responses(rest, answers)))
    if not errors or any(a.kind == "query" for a in answers):
        return Judged((f"It was to be refused: {rest.error.message}",), words=False)
    return _judged_error(rest, errors[0])


def judged_refusal(rest: Rest, error: HoldfastError) -> Judged:
    """Judges the refusal of a statement that a job, not a server, carries out."""
    status, body = problem(error, rest.statements[-1])
    if rest.error is None:
        return Judged((str(error),))
    return _judged_error(rest, Answered("error", body, status))


def _judged_error(rest: Rest, answer: Answered) -> Judged:
    assert rest.error is not None
    wrong, words = wrong_error(rest.error, answer, rest.statements[-1])
    return Judged((wrong,) if wrong else (), words, answer.body["message"])


async def _answers(
    case: Case, rest: Rest, topology: Topology, topics: Topics, life: Life
) -> list[Answered]:
    properties = _DEFAULTS | dict(case.properties)
    async with asked_server(case.statements, topology, topics, life) as server:
        done = [await _done(server, text) for text in _each(rest)]
        queries = rest.statements[rest.queries_from :]
        asked = [await server.query(query, properties) for query in queries]
    return [answer for answer in (*done, *asked) if answer is not None]


def _each(rest: Rest) -> list[str]:
    """The statements that are not queries, one by one."""
    texts = rest.statements[: rest.queries_from]
    return [text[start:end] for text in texts for start, end in statement_places(text)]


async def _done(server: AskedServer, text: str) -> Answered | None:
    """The answer to a statement that is not a query; None: ksqlDB has none for it."""
    if is_looking(text):
        return await server.statement(text)
    found = parse(Script(text), Definitions(), place=Place.TEST)
    if not found or isinstance(found[0], _SILENT):
        return None
    return Answered("admin", {**_DONE, "statementText": text})
