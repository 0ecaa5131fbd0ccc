"""ksqlDB's /ksql: SHOW, DESCRIBE and EXPLAIN.  It changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from holdfast.config.table import rows as property_rows
from holdfast.errors import BadRequest, HoldfastError, InvalidStatement
from holdfast.serve.http.context import Context
from holdfast.serve.http.guard.access import Client, check_readable
from holdfast.serve.http.ksql.entities import (
    query_description,
    running_query,
    source_description,
    source_info,
)
from holdfast.serve.http.ksql.queries import properties_of, statement_of
from holdfast.serve.http.ksql.schemas import needed_schemas
from holdfast.serve.http.ksql.session import Session
from holdfast.serve.http.problems import BAD_STATEMENT, QUERY_ENDPOINT
from holdfast.serve.http.request import Request
from holdfast.serve.visible import visible
from holdfast.serve.workers.calls import planned_after, statements_in
from holdfast.sql import explain
from holdfast.sql.functions.docs import reference
from holdfast.sql.parse.clauses import Name
from holdfast.sql.parse.script import Script
from holdfast.sql.parse.statements import (
    CreateAs,
    CreateSource,
    Define,
    Describe,
    Explain,
    InsertSelect,
    Print,
    SelectQuery,
    SetProperty,
    Show,
    Statement,
    Steer,
    Undefine,
    UnsetProperty,
)
from holdfast.sql.plan.sources.changes import known_id
from holdfast.sql.plan.sources.listing import relations
from holdfast.transport.registry import registry_of
from holdfast.types.columns.schemas import Registered
from holdfast.types.statements.topology import Query, Sink, Source, Topology, statements

__all__ = ["KsqlStatements"]

_Entity = dict[str, Any]
_HOW_TO_CHANGE = (
    "query servers only read.  Put the statement into the job's script and deploy it again "
    "(`holdfast deploy NAME SCRIPT`); records go into a topic with any Kafka producer; "
    "`holdfast sql` pauses and resumes queries."
)


class _QueryEndpoint(InvalidStatement):
    """The statement has to be sent to another path."""


class KsqlStatements:
    """Handlers that report on the catalog; owns nothing."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._handlers: dict[type, Callable[..., _Entity]] = {
            Show: self._show,
            Describe: self._describe,
            Explain: self._explain,
            Steer: self._steer,
        }

    async def statements(self, request: Request, client: Client) -> None:
        """POST /ksql: `{"ksql", "streamsProperties", "sessionVariables"}`."""
        body = await request.json_object()
        queries = self._context.queries
        text = await statement_of(queries, body, ("ksql", "sql"))
        session = Session(properties_of(body))
        found: list[_Entity] = []
        for one, parsed in await queries.work(text, statements_in, text):
            try:
                entity = await self._one(one, parsed, session, client)
            except _QueryEndpoint as error:
                await request.fail(error, one, QUERY_ENDPOINT)
                return
            except InvalidStatement as error:
                await request.fail(error, one, BAD_STATEMENT)
                return
            if entity is not None:
                found.append({**entity, "statementText": one, "warnings": []})
        self._context.audit.note(request.started_s, who=client.name, statement=text, ended="done")
        await request.json(found)

    async def insert(self, request: Request, client: Client) -> None:
        """POST /inserts-stream: refused, since a query server only reads."""
        raise BadRequest("query servers do not insert rows.", action=_HOW_TO_CHANGE)

    async def _one(
        self,
        text: str,
        statement: Statement | HoldfastError | None,
        session: Session,
        client: Client,
    ) -> _Entity | None:
        script = Script(text)
        if statement is None:
            return None
        if isinstance(statement, HoldfastError):
            raise statement
        if isinstance(statement, Explain) and isinstance(
            statement.statement, CreateSource | CreateAs | InsertSelect
        ):
            text = _without_explain(text, statement.at)
            return await self._planned(text, statement.statement, session, client)
        handler = self._handlers.get(type(statement))
        if handler is not None:
            return handler(statement, script, client)
        if isinstance(statement, SetProperty | UnsetProperty):
            session.take(statement)
            return None
        if isinstance(statement, Define | Undefine):
            return None
        raise _refused(statement, script)

    def _visible(self, client: Client) -> dict[str, Source | Sink]:
        """Streams and tables that the client may read."""
        found = relations(self._context.serving.catalog.topology())
        return {name: one for name, one in found.items() if client.may_read(name)}

    def _topology(self, client: Client) -> Topology:
        """The statements that the client may see."""
        return visible(self._context.serving.catalog.topology(), client.may_read).topology

    def _show(self, statement: Show, script: Script, client: Client) -> _Entity:
        topology = self._topology(client)
        what = statement.what
        if what in ("STREAMS", "TABLES"):
            found = [s for s in self._visible(client).values() if f"{s.kind}S" == what]
            return _sources(statement, sorted(found, key=_name), topology)
        if what == "QUERIES":
            shown = [q for q in topology.queries if not q.sink.internal]
            return {"@type": "queries", "queries": [running_query(q) for q in shown]}
        if what == "TOPICS":
            return {"@type": "kafka_topics", "topics": _topics(self._visible(client).values())}
        if what == "PROPERTIES":
            return _properties(topology)
        return _SAME_FOR_ALL[what]()

    def _describe(self, statement: Describe, script: Script, client: Client) -> _Entity:
        topology = self._topology(client)
        name = statement.name
        if name is None:
            shown = [s for s in self._visible(client).values() if f"{s.kind}S" == statement.kind]
            every = [source_description(s, topology, extended=True) for s in shown]
            return {"@type": "source_descriptions", "sourceDescriptions": every}
        if statement.kind == "FUNCTION":
            return _function(name.text, name.at, script)
        found = self._visible(client).get(name.text)
        if found is None:
            check_readable(name.text, client)
            raise script.unknown(name.at, "stream or table", name.text, self._visible(client))
        described = source_description(found, topology, extended=statement.extended)
        return {"@type": "sourceDescription", "sourceDescription": described}

    def _explain(self, statement: Explain, script: Script, client: Client) -> _Entity:
        if statement.query is not None:
            return self._explained(statement.query, script, client)
        if isinstance(statement.statement, SelectQuery):
            return self._of_select(statement.statement, client)
        raise _refused(statement.statement or statement, script)

    async def _planned(
        self,
        text: str,
        statement: CreateSource | CreateAs | InsertSelect,
        session: Session,
        client: Client,
    ) -> _Entity:
        for name in _named(statement):
            check_readable(name, client)
        # Planned with only the statements that the client may see: no error or hint reveals the
        # rest.
        known = visible(self._context.serving.catalog.topology(), client.may_read)
        results = (sink.as_source() for sink in known.results)
        after = session.over(replace(known.topology, sources=(*known.topology.sources, *results)))
        schemas = await self._schemas(statement, after, client)
        planned = await self._context.queries.work(text, planned_after, text, after, schemas)
        return {"@type": "executionPlan", "executionPlan": explain(_added(planned, after))}

    async def _schemas(
        self, statement: CreateSource | CreateAs | InsertSelect, after: Topology, client: Client
    ) -> tuple[Registered, ...] | None:
        registry = registry_of(self._context.serving.settings.registry.client())
        if registry is None:
            return None
        topics = frozenset(each.topic for each in self._visible(client).values())
        every = client.reads_all
        return await asyncio.to_thread(
            needed_schemas, statement, registry, after, topics, every=every
        )

    def _of_select(self, asked: SelectQuery, client: Client) -> _Entity:
        topology, name = self._topology(client), asked.select.source.text
        check_readable(name, client)
        writers = [q for q in topology.queries if q.sink.name == name]
        plan = f"query servers read {name} from their own stores"
        if writers:
            plan += f", which follow what this writes:\n\n{_plan(writers, topology)}"
        return {"@type": "executionPlan", "executionPlan": plan}

    def _explained(self, name: Name, script: Script, client: Client) -> _Entity:
        topology = self._topology(client)
        steps = statements(topology.queries)
        wanted = known_id(name.text, steps)
        if wanted is None:
            raise script.unknown(name.at, "query", name.text.lower(), steps)
        queries = steps[wanted]
        plan = _plan(queries, topology)
        described = query_description(queries, plan, dict(topology.properties))
        return {"@type": "queryDescription", "queryDescription": described}

    def _steer(self, statement: Steer, script: Script, client: Client) -> _Entity:
        """TERMINATE of a push query; persistent queries do not run on this server."""
        name = statement.query.text if statement.query else ""
        close, who = self._context.running.close, client.name
        if statement.verb == "TERMINATE" and (close(name, who) or close(name.lower(), who)):
            return {"@type": "terminate_query", "queryId": name, "wasTerminated": True}
        raise _refused(statement, script)


def _name(of: Source | Sink) -> str:
    return of.name


def _named(statement: CreateSource | CreateAs | InsertSelect) -> list[str]:
    """The streams and tables that a statement names."""
    target = statement.target if isinstance(statement, InsertSelect) else statement.name
    if isinstance(statement, CreateSource):
        return [target.text]
    select = statement.select
    return [n.text for n in (target, select.source, *(j.source for j in select.joins))]


def _without_explain(text: str, at: int) -> str:
    """The statement that is explained, with all characters at their original places."""
    end = at + len("EXPLAIN")
    return text[:at] + " " * (end - at) + text[end:]


def _added(planned: Topology, before: Topology) -> Topology:
    queries = tuple(q for q in planned.queries if q not in before.queries)
    sources = tuple(s for s in planned.sources if s not in before.sources)
    return Topology(queries, sources, planned.properties)


def _plan(queries: Sequence[Query], topology: Topology) -> str:
    return explain(Topology(tuple(queries), topology.sources, topology.properties))


def _refused(statement: Statement, script: Script) -> HoldfastError:
    at = getattr(statement, "at", 0)
    if isinstance(statement, SelectQuery | Print):
        line, column = script.place(at)
        what = "SELECT" if isinstance(statement, SelectQuery) else "PRINT"
        return _QueryEndpoint(
            f"{what} is not a statement for /ksql.",
            action="send SELECT to /query-stream or /query; print topics with `holdfast sql`.",
            line=line,
            column=column,
        )
    return script.unsupported(at, "this statement changes something", action=_HOW_TO_CHANGE)


def _sources(statement: Show, found: Sequence[Source | Sink], topology: Topology) -> _Entity:
    if statement.extended:
        described = [source_description(s, topology, extended=True) for s in found]
        return {"@type": "source_descriptions", "sourceDescriptions": described}
    what = statement.what.lower()
    return {"@type": what, what: [source_info(s) for s in found]}


def _functions() -> _Entity:
    listed = [{"name": e.name, "type": e.kind.upper(), "category": ""} for e in reference()]
    return {"@type": "function_names", "functions": listed}


_SAME_FOR_ALL: dict[str, Callable[[], _Entity]] = {
    "FUNCTIONS": _functions,
    "TYPES": lambda: {"@type": "type_list", "types": {}},
    "VARIABLES": lambda: {"@type": "variables", "variables": []},
}


def _properties(topology: Topology) -> _Entity:
    in_script = dict(topology.properties)
    listed = [
        {"name": name, "scope": "HOLDFAST", "value": str(in_script.get(name, default)),
         "editable": False, "level": "Query"}
        for name, default, _, _ in property_rows()
    ]  # fmt: skip
    return {
        "@type": "properties",
        "properties": listed,
        "overwrittenProperties": sorted(in_script),
        "defaultProperties": sorted({p["name"] for p in listed} - set(in_script)),
    }


def _topics(found: Iterable[Source | Sink]) -> list[_Entity]:
    return [
        {"name": s.topic, "replicaInfo": [s.replicas or 0] * (s.partitions or 0)}
        for s in sorted(found, key=_name)
    ]


def _function(name: str, at: int, script: Script) -> _Entity:
    entries = reference()
    found = [e for e in entries if e.name == name]
    if not found:
        raise script.unknown(at, "function", name, [e.name for e in entries])
    signatures = [
        {
            "arguments": [],
            "returnType": "",
            "description": f"{s}: {e.sentence}",
            "isVariadic": False,
        }
        for e in found
        for s in e.signatures
    ]
    return {
        "@type": "describe_function",
        "name": name,
        "description": found[0].sentence,
        "type": found[0].kind.upper(),
        "functions": signatures,
    }
