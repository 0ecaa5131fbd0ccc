"""A job's topology as nodes and edges, for the console to draw.

Queries share the streams and tables that they read, so all queries of a job form one graph: sources
→ WHERE → GROUP BY or join → HAVING → table → the next query.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from holdfast.sql.explain.words import columns, duration
from holdfast.types.statements.topology import (
    AggregateCall,
    AggregateStep,
    ChangesStep,
    DeduplicateStep,
    JoinStep,
    NamedExpression,
    ProjectStep,
    Query,
    ResolveStep,
    Sink,
    Source,
    SubscribeStep,
    TableStep,
    Window,
    WindowKind,
)

__all__ = ["Edge", "Graph", "Node", "graph_of"]


@dataclass(frozen=True)
class Node:
    """One box.

    Attributes:
        id: unique in its graph.
        kind: stream, table, internal, filter, select, explode, group, join, having or step.
        text: a second line, "" without one.
        facts: (name, value) pairs, shown on demand.
        query: the query whose step it is; "" for streams and tables.
        changelog: the step's changelog topic; "" without state.
    """

    id: str
    kind: str
    title: str
    text: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    query: str = ""
    changelog: str = ""


@dataclass(frozen=True)
class Edge:
    """An arrow between two nodes' ids; `label`: how rows are distributed, if they are."""

    source: str
    target: str
    label: str = ""


@dataclass(frozen=True)
class Graph:
    """Nodes in the order in which rows reach them, and the edges between them."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]


def graph_of(
    queries: Iterable[Query], changelogs: Mapping[str, str], alone: Iterable[Sink] = ()
) -> Graph:
    """The graph of all `queries`; `changelogs`: topics by the id of each query with state.

    `alone`: results that are drawn without their inputs.
    """
    drawing = _Drawing(changelogs)
    for sink in alone:
        drawing.nodes[f"relation:{sink.name}"] = _relation(sink)
    for query in queries:
        drawing.add(query)
    return Graph(tuple(drawing.nodes.values()), tuple(drawing.edges))


@dataclass
class _Drawing:
    changelogs: Mapping[str, str]
    nodes: dict[str, Node] = field(default_factory=dict)
    edges: list[Edge] = field(default_factory=list)

    def add(self, query: Query) -> None:
        """Draw one query from its sources to its sink."""
        ends = list(self._inputs(query))
        step = self._put(_step_node(query, self.changelogs.get(query.id, "")))
        label = _way(query)
        for place, end in enumerate(ends):
            broadcast = label == "broadcast"
            self.edges.append(Edge(end, step, "" if broadcast and place == 0 else label))
        end = step
        for kind, title, text in _after(query):
            last = end
            end = self._put(Node(f"{query.id}:{kind}", kind, title, text, query=query.id))
            self.edges.append(Edge(last, end))
        self.edges.append(Edge(end, self._put(_relation(query.sink), replace=True)))

    def _put(self, node: Node, *, replace: bool = False) -> str:
        if replace or node.id not in self.nodes:
            self.nodes[node.id] = node
        return node.id

    def _inputs(self, query: Query) -> Iterator[str]:
        """The nodes that the step reads: each input, after its WHERE."""
        filters = [(each.source, each.filter) for each in query.inputs]
        for place, (source, condition) in enumerate(filters or [(query.source, query.filter)]):
            end = self._put(_relation(source))
            if condition is not None:
                one = f"{query.id}:where{place}"
                node = self._put(
                    Node(one, "filter", "WHERE", _plain(condition.sql), query=query.id)
                )
                self.edges.append(Edge(end, node))
                end = node
            yield end


def _relation(of: Source | Sink) -> Node:
    internal = isinstance(of, Sink) and of.internal
    facts = [("topic", of.topic), ("key", columns(of.key_columns) or "none")]
    facts += [("value", columns(of.value_columns))]
    facts += [("formats", f"key {of.key_format}, value {of.value_format}")]
    if of.window is not None:
        facts.append(("windows", str(of.window)))
    return Node(
        f"relation:{of.name}",
        "internal" if internal else of.kind.lower(),
        of.name,
        of.topic if of.topic != of.name else "",
        tuple(facts),
    )


def _way(query: Query) -> str:
    if isinstance(query.step, ProjectStep):
        return ""
    return "broadcast" if query.is_broadcast else "by key"


def _step_node(query: Query, changelog: str) -> Node:
    kind, title, text, facts = _told(query)
    return Node(
        f"{query.id}:step",
        kind,
        title,
        text,
        tuple(facts.items()),
        query.id,
        changelog,
    )


def _told(query: Query) -> tuple[str, str, str, Mapping[str, str]]:
    """(kind, title, text, facts) of a query's step."""
    step = query.step
    if isinstance(step, AggregateStep):
        return "group", "GROUP BY", _names(step.keys), _aggregate_facts(step)
    if isinstance(step, JoinStep):
        title = f"{step.kind} JOIN"
        return "join", title, step.form.replace("_", "-").lower(), _join_facts(step)
    if isinstance(step, ProjectStep):
        kind, title = ("explode", "EXPLODE") if step.explode else ("select", "SELECT")
        values = "; ".join(f"{o.column.name} = {_plain(o.sql)}" for o in step.outputs)
        return kind, title, _names(step.outputs), {"values": values}
    return _other(step)


def _other(
    step: ChangesStep | TableStep | SubscribeStep | ResolveStep | DeduplicateStep,
) -> tuple[str, str, str, Mapping[str, str]]:
    facts = {"key": _names(step.input.keys), "carries": _names(step.input.columns)}
    if isinstance(step, DeduplicateStep):
        return "step", "DEDUPLICATE", f"within {duration(step.within_ms)}", facts
    named = {
        ChangesStep: ("CHANGES", "old and new row"),
        TableStep: ("TABLE ROWS", "which keys passed"),
        SubscribeStep: ("SUBSCRIBE", "by foreign key"),
        ResolveStep: ("RESOLVE", "newest version"),
    }
    title, text = named[type(step)]
    return "step", title, text, facts


def _names(items: Iterable[NamedExpression]) -> str:
    return ", ".join(each.column.name for each in items)


def _aggregate_facts(step: AggregateStep) -> dict[str, str]:
    facts = {"key": "; ".join(f"{k.column} = {_plain(k.sql)}" for k in step.keys)}
    if step.window is not None:
        facts["window"] = _window(step.window)
    facts["aggregates"] = "; ".join(_plain(_called(call)) for call in step.aggregates)
    facts["emit"] = str(step.emit)
    return facts


def _window(window: Window) -> str:
    what = "gap" if window.kind is WindowKind.SESSION else "size"
    parts = [f"{window.kind} {what} {duration(window.size_ms)}"]
    if window.advance_ms != window.size_ms:
        parts.append(f"advance {duration(window.advance_ms)}")
    return ", ".join([*parts, f"grace {duration(window.grace_ms)}"])


def _join_facts(step: JoinStep) -> dict[str, str]:
    facts = {}
    for name, side in (("left key", step.left), ("right key", step.right)):
        facts[name] = "; ".join(_plain(k.sql) for k in side.keys)
    if step.window is not None:
        before, after = duration(step.window.before_ms), duration(step.window.after_ms)
        facts["within"] = f"{before} before, {after} after"
    facts["emit"] = str(step.emit)
    return facts


def _after(query: Query) -> Iterator[tuple[str, str, str]]:
    """(kind, title, text) of the steps after the state task's merge."""
    step = query.step
    if isinstance(step, AggregateStep) and step.having is not None:
        text = _plain(step.having.sql)
        for call in step.aggregates:
            text = re.sub(rf"{call.name}\b", _plain(_called(call)), text)
        yield "having", "HAVING", text
    if isinstance(step, JoinStep) and step.filter is not None:
        yield "filter", "WHERE", _plain(step.filter.sql)


def _called(call: AggregateCall) -> str:
    return f"{call.function}({', '.join(map(str, call.args)) or '*'})"


# The planner's wrappers around names, constants and divisors do not help a reader.
_WRAPPED = (
    (re.compile(r"[`\"](\w+)[`\"]"), r"\1"),
    (re.compile(r"CAST\((-?[\d.]+|'[^']*') AS [A-Z]+\)"), r"\1"),
    (re.compile(r"nullif\((\w+), 0\)"), r"\1"),
    (re.compile(r"TRY\((.*)\)$"), r"\1"),
)


def _plain(text: str) -> str:
    """An expression shortened for the drawing; it cannot be evaluated."""
    for pattern, short in _WRAPPED:
        text = pattern.sub(short, text)
    while text.startswith("(") and _closes(text) == len(text) - 1:
        text = text[1:-1]
    return text


def _closes(text: str) -> int:
    """The index of the bracket that closes the first one, or -1.  Literals hold no brackets."""
    depth, quoted = 0, False
    for place, letter in enumerate(text):
        quoted ^= letter == "'"
        depth += 0 if quoted else (letter == "(") - (letter == ")")
        if depth == 0:
            return place
    return -1
