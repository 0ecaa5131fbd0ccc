"""Our own API under /v1: queries, tables, positions, servers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, unquote

from holdfast.errors import BadRequest, InvalidStatement
from holdfast.serve.contract import ROWTIME, ServedTable
from holdfast.serve.http.context import Context
from holdfast.serve.http.forms import (
    ARROW,
    EVENTS,
    JSON,
    NDJSON,
    ArrowForm,
    EventsForm,
    Form,
    LinesForm,
    ObjectForm,
    partitions,
)
from holdfast.serve.http.guard.access import Client, check_readable
from holdfast.serve.http.ksql.queries import accepted, properties_of, statement_of
from holdfast.serve.http.request import Request
from holdfast.serve.queries import Ask, Queries
from holdfast.serve.visible import Visible, visible
from holdfast.types.statements.topology import Topology

__all__ = ["V1", "ask_of"]

_FORMS: dict[str, type[Form]] = {
    JSON: ObjectForm,
    NDJSON: LinesForm,
    EVENTS: EventsForm,
    ARROW: ArrowForm,
}
_WAIT_S_MAX = 60.0


class V1:
    """Handlers of the paths under /v1; owns nothing."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def query(self, request: Request, client: Client) -> None:
        """POST /v1/query; the Accept header chooses the format of the answer."""
        await self._run(request, client, await request.json_object())

    async def query_events(self, request: Request, client: Client) -> None:
        """GET /v1/query?sql=…: for clients that can only GET, such as a browser's EventSource."""
        asked = parse_qs(request.scope["query_string"].decode("latin-1"))
        body: dict[str, Any] = {name: values[-1] for name, values in asked.items()}
        body.pop("positions", None)  # a URL cannot express them
        body["properties"] = {k.removeprefix("properties."): v for k, v in body.items()
                              if k.startswith("properties.")}  # fmt: skip
        resume = request.header(b"last-event-id")
        await self._run(request, client, {**body, **({"resume": resume} if resume else {})})

    async def _run(self, request: Request, client: Client, body: Mapping[str, Any]) -> None:
        ask = await ask_of(self._context.queries, body, self._context.limits.timeout_s)
        form = _FORMS[accepted(request.header(b"accept"), tuple(_FORMS))]()
        try:
            await self._context.answer(request, client, ask, form)
        except InvalidStatement as error:
            await request.fail(error, ask.sql)

    async def tables(self, request: Request, client: Client) -> None:
        """GET /v1/tables: tables that the client may read, and unserved ones with the reason."""
        catalog = self._context.serving.catalog
        known = self._seen(client).topology
        served = sorted(catalog.tables().items())
        found = [_about(t, known) for n, t in served if client.may_read(n)]
        rest = [
            {"name": u.name, "kind": u.kind, "reason": u.reason}
            for n, u in sorted(catalog.unserved().items())
            if client.may_read(n)
        ]
        await request.json({"tables": found, "unserved": rest})

    async def table(self, request: Request, client: Client) -> None:
        """GET /v1/tables/NAME."""
        table = self._table(request, client, 3)
        await request.json(_about(table, self._seen(client).topology))

    async def positions(self, request: Request, client: Client) -> None:
        """GET /v1/tables/NAME/positions: the position of each state partition's best holder."""
        table = self._table(request, client, 3)
        states = await self._context.serving.reader.positions(table)
        await request.json({"table": table.name, "partitions": partitions(states)})

    def _seen(self, client: Client) -> Visible:
        return visible(self._context.serving.catalog.topology(), client.may_read)

    def _table(self, request: Request, client: Client, at: int) -> ServedTable:
        name = unquote(request.scope["path"].split("/")[at])
        tables = self._context.serving.catalog.tables()
        found = tables.get(name) or tables.get(name.upper())
        check_readable(found.name if found else name.upper(), client)
        if found is None:
            raise BadRequest(f"no table {name[:100]} is served here.", status=404)
        return found

    async def servers(self, request: Request, client: Client) -> None:
        """GET /v1/servers."""
        cluster = self._context.serving.cluster
        members = [
            {
                "id": m.server_id,
                "address": m.address,
                "state": m.state.value,
                "seen_ms": m.seen_ms,
                "partitions": sum(client.may_read(h.table) for h in m.holdings),
            }
            for m in cluster.members()
        ]
        await request.json({"me": cluster.me, "servers": members})

    async def sign_in(self, request: Request, client: Client) -> None:
        """POST /v1/session: keeps the request's token in a cookie that scripts cannot read."""
        token = request.header(b"authorization").partition(" ")[2].strip()
        secure = "; Secure" if request.scope.get("scheme") == "https" else ""
        cookie = f"holdfast_token={token}; Path=/; HttpOnly; SameSite=Strict{secure}"
        await request.respond(b"{}", headers={"set-cookie": cookie} if token else {})

    async def sign_out(self, request: Request, client: Client) -> None:
        """DELETE /v1/session."""
        gone = "holdfast_token=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0"
        await request.respond(b"{}", headers={"set-cookie": gone})


def _about(table: ServedTable, known: Topology) -> dict[str, Any]:
    """A table as JSON; with its statement only if the client may see everything it names."""
    return {
        "name": table.name,
        "query": table.query_id,
        "topic": table.topic,
        "partitions": table.partitions,
        "key": [c.name for c in table.key_columns],
        "columns": [{"name": c.name, "type": str(c.type)} for c in table.columns],
        "also": [ROWTIME],
        "window": {"kind": table.window.value, "size_ms": table.window_size_ms}
        if table.window
        else None,
        "statement": table.statement if known.query(table.name) else "",
    }


async def ask_of(queries: Queries, body: Mapping[str, Any], timeout_s: float) -> Ask:
    """The query that a request under /v1 asks for.

    Raises:
        BadRequest: a part of it is malformed.
    """
    resume = body.get("resume") or ""
    if not isinstance(resume, str):
        raise BadRequest("`resume` must be a token that an earlier answer gave.")
    return Ask(
        sql=await statement_of(queries, body, ("sql",)),
        properties=properties_of(body),
        positions=_positions(body.get("positions")),
        wait_s=_seconds(body, "wait_ms", 10.0, _WAIT_S_MAX),
        timeout_s=_seconds(body, "timeout_ms", timeout_s, timeout_s),
        token=resume,
    )


def _positions(found: Any) -> dict[int, int] | None:
    if found is None:
        return None
    try:
        positions = {
            int(p): int(at["position"] if isinstance(at, dict) else at) for p, at in found.items()
        }
    except (AttributeError, KeyError, TypeError, ValueError):
        raise BadRequest(
            "`positions` must be an object of partitions and positions, such as "
            '{"0": 17} or the `partitions` of an earlier answer.'
        ) from None
    if any(not 0 <= p < 1 << 31 or not 0 <= at < 1 << 63 for p, at in positions.items()):
        raise BadRequest("`positions` has an impossible partition or position.")
    return positions


def _seconds(body: Mapping[str, Any], name: str, default: float, most: float) -> float:
    given = body.get(name)
    if given is None:
        return default
    try:
        seconds = float(given) / 1000
    except (TypeError, ValueError):
        raise BadRequest(f"`{name}` must be a number of milliseconds.") from None
    if not 0 <= seconds <= 86_400_000:
        raise BadRequest(f"`{name}` must be a number of milliseconds from 0 on.")
    return min(seconds, most)
