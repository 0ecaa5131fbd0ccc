"""ksqlDB's /query-stream, /query and /close-query."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.errors import BadRequest, InvalidStatement
from holdfast.serve.http.context import Context
from holdfast.serve.http.forms import (
    DELIMITED,
    JSON,
    KSQL_JSON,
    DelimitedForm,
    Form,
    JsonForm,
    RowsForm,
)
from holdfast.serve.http.guard.access import Client
from holdfast.serve.http.request import Request
from holdfast.serve.queries import Ask, Queries
from holdfast.serve.workers.calls import substituted

__all__ = ["KsqlQueries", "accepted", "properties_of", "statement_of"]


class KsqlQueries:
    """Handlers of the three paths; owns nothing."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def query_stream(self, request: Request, client: Client) -> None:
        """POST /query-stream: `{"sql", "properties", "sessionVariables"}`."""
        body = await request.json_object()
        kind = accepted(request.header(b"accept"), (DELIMITED, JSON, KSQL_JSON))
        form: Form
        if kind == KSQL_JSON:
            form = RowsForm()
        else:
            # ksqlDB's HTTP/2 clients parse each frame as a line, so each line is sent as a frame.
            form = JsonForm() if kind == JSON else DelimitedForm(separate=request.http2)
        await self._run(request, client, body, ("sql", "ksql"), form)

    async def query(self, request: Request, client: Client) -> None:
        """POST /query: `{"ksql", "streamsProperties"}`."""
        body = await request.json_object()
        form: Form = RowsForm()
        if accepted(request.header(b"accept"), (KSQL_JSON, DELIMITED)) == DELIMITED:
            form = DelimitedForm(separate=request.http2)
        await self._run(request, client, body, ("ksql", "sql"), form)

    async def _run(
        self,
        request: Request,
        client: Client,
        body: Mapping[str, Any],
        names: tuple[str, str],
        form: Form,
    ) -> None:
        sql = await statement_of(self._context.queries, body, names)
        properties = properties_of(body)
        ask = Ask(sql, properties, timeout_s=self._context.limits.timeout_s)
        try:
            await self._context.answer(request, client, ask, form)
        except InvalidStatement as error:
            await request.fail(error, sql)

    async def close_query(self, request: Request, client: Client) -> None:
        """POST /close-query: `{"queryId"}`."""
        found = (await request.json_object()).get("queryId")
        if not isinstance(found, str) or not self._context.running.close(found, client.name):
            raise BadRequest(
                f"no query of yours with id {str(found)[:100]} runs on this server.",
                cause="it has ended, another server runs it, or it belongs to another client.",
            )
        await request.json({})


def accepted(header: str, kinds: tuple[str, ...]) -> str:
    """The media type that a client prefers; the first one if it states no preference."""
    best, liked = kinds[0], 0.0
    for part in header.split(","):
        kind, *parameters = (p.strip() for p in part.split(";"))
        weight = next((_weight(p[2:]) for p in parameters if p.startswith("q=")), 1.0)
        if kind.lower() in kinds and weight > liked:
            best, liked = kind.lower(), weight
    return best


def _weight(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


async def statement_of(queries: Queries, body: Mapping[str, Any], names: tuple[str, ...]) -> str:
    """The statement of a request, with its session variables substituted.

    Raises:
        BadRequest: there is none, or it is not text.
        InvalidStatement: a variable is undefined.
    """
    found = next((body[n] for n in names if body.get(n)), None)
    if not isinstance(found, str) or not found.strip():
        raise BadRequest(f"the request has no statement: `{names[0]}` must be text.")
    variables = body.get("sessionVariables")
    if not variables:
        return found
    if not isinstance(variables, dict):
        raise BadRequest("`sessionVariables` must be an object of names and values.")
    known = {str(name).lower(): str(value) for name, value in variables.items()}
    return await queries.work(found, substituted, found, known)


def properties_of(body: Mapping[str, Any]) -> dict[str, Any]:
    """The request's properties, under either of ksqlDB's names for them.

    Raises:
        BadRequest: they are not an object.
    """
    found: dict[str, Any] = {}
    for name in ("streamsProperties", "properties"):
        part = body.get(name) or {}
        if not isinstance(part, dict):
            raise BadRequest(f"`{name}` must be an object of names and values.")
        found |= part
    return found
