"""SELECT → Read: pull queries, and push queries (EMIT CHANGES), by ksqlDB's rules.

Beyond ksqlDB: aggregates with and without GROUP BY, and ORDER BY, in a pull query.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from sqlglot import exp

from holdfast.errors import InvalidStatement
from holdfast.sql.expressions.clause_errors import naming
from holdfast.sql.expressions.names import Functions, RelationScope
from holdfast.sql.expressions.translator import Translator
from holdfast.sql.expressions.typed import Typed
from holdfast.sql.parse.script import Script, start_of
from holdfast.sql.parse.statements import SelectQuery
from holdfast.sql.parse.text import Place, parse
from holdfast.sql.plan.aggregate import evaluated, tried
from holdfast.sql.plan.projection import Item, expand
from holdfast.sql.plan.relation import WINDOW_BOUNDS, Field, FieldKind, Relation, read_column
from holdfast.sql.read.aggregates import GroupedScope, grouping, grouping_keys
from holdfast.sql.read.asked import EVERYTHING, Bounds, Keyed, Read
from holdfast.sql.read.bounds import bounds_of
from holdfast.sql.read.lookups import keyed_of
from holdfast.types.columns.schema import BIGINT, NESTED_MAX, Base, Column, SqlType
from holdfast.types.statements.expressions import Expression, NamedExpression
from holdfast.types.statements.sources import Source

__all__ = ["parse_read", "plan_read"]

_NOTHING: Mapping[str, str] = MappingProxyType({})
_UNORDERED = (Base.ARRAY, Base.MAP, Base.STRUCT)
_PLACES = ("ROWPARTITION", "ROWOFFSET")
_PUSH_HINT = "Add EMIT CHANGES if you intended to issue a push query."


def parse_read(text: str) -> tuple[Script, SelectQuery]:
    """The one SELECT of a text, with or without its semicolon.

    Raises:
        InvalidStatement: it is none, or more than one statement.
    """
    script = Script(text)
    try:
        found = parse(script, place=Place.SESSION)
    except RecursionError:
        raise script.too_large() from None
    if len(found) != 1:
        raise script.invalid(0, f"Expected exactly one KSQL statement; found {len(found)} instead")
    if not isinstance(found[0], SelectQuery):
        raise script.invalid(
            0,
            "only a SELECT can be answered as a query",
            action="statements that create or look at something go to /ksql",
        )
    return script, found[0]


def plan_read(
    script: Script,
    query: SelectQuery,
    source: Source,
    *,
    functions: Functions | None = None,
    properties: Mapping[str, str] = _NOTHING,
) -> Read:
    """The plan of a query over one table or stream.

    Args:
        source: with WINDOWSTART and WINDOWEND where it is windowed.
        functions: the aggregates that are known; the registered ones by default.

    Raises:
        InvalidStatement: it breaks a rule of ksqlDB's, or names something unknown.
        Unsupported: it needs more than the rows of one table.
    """
    known = (functions or Functions({})).under(properties)
    try:
        return _Planner(script, query, source, known).plan()
    except RecursionError:
        raise script.too_large() from None


class _Rows(RelationScope):
    """The columns of the rows that are read, in DuckDB."""

    @property
    def place(self) -> str:
        return "in a query of its own"


class _PullRows(_Rows):
    """The same of a pull query, for which rows have no place in a topic."""

    def column(self, node: exp.Column, name: str, qualifier: str | None) -> Typed:
        if name in _PLACES and not self._relation.find(name, qualifier):
            raise self._script.invalid(
                start_of(node),
                "Pull queries don't support the following columns in "
                f"{self._clause} clauses: `{name}`",
                action=_PUSH_HINT,
            )
        return super().column(node, name, qualifier)


class _Planner:
    def __init__(
        self, script: Script, query: SelectQuery, source: Source, functions: Functions
    ) -> None:
        self._script = script
        self._query = query
        self._select = query.select
        self._functions = functions
        alias = self._select.source_alias
        self._relation = _relation(source, alias.text if alias else None)
        self._kind = "Push" if self._select.changes else "Pull"

    def plan(self) -> Read:
        self._refuse_clauses()
        aggregated = self._aggregated()
        condition, bounds = self._where()
        select = self._select
        read = Read(
            source=self._relation.source,
            push=select.changes,
            outputs=() if aggregated else self._outputs(self._rows("SELECT"), self._items()),
            condition=condition,
            bounds=bounds,
            limit=self._query.limit,
            keyed=self._keyed(),
        )
        read = self._grouped(read) if aggregated else read
        return replace(read, order=self._order(read))

    def _order(self, read: Read) -> tuple[tuple[int, bool], ...]:
        names = [column.name for column in read.columns]
        found = []
        for item in self._query.order:
            name, at = item.column.text, item.column.at
            if name not in names:
                raise self._script.unknown(at, "result column", name, names)
            place = names.index(name)
            if read.columns[place].type.base in _UNORDERED:
                raise self._script.invalid(
                    at, f"ORDER BY takes no {read.columns[place].type.base} column, as {name} is"
                )
            found.append((place, item.descending))
        return tuple(found)

    def _rows(self, clause: str) -> Translator:
        kind = _Rows if self._select.changes else _PullRows
        scope = kind(self._script, self._relation, self._functions, clause, joined=True)
        return Translator(self._script, scope)

    def _items(self) -> list[Item]:
        rows = self._rows("SELECT")
        items, _ = expand(self._script, self._select, self._relation, rows, transient=True)
        return items

    def _refuse_clauses(self) -> None:
        select, kind = self._select, self._kind
        given = {
            "JOIN": bool(select.joins),
            "WINDOW": select.window is not None,
            "PARTITION BY": select.partition_by is not None,
            "GROUP BY": select.changes and bool(select.group_by),
            "HAVING": select.changes and select.having is not None,
        }
        for clause, there in given.items():
            if there:
                raise self._refused(f"{kind} queries don't support {clause} clauses.")
        if select.final:
            raise self._refused("Pull queries don't support EMIT FINAL clauses.")

    def _refused(self, fact: str) -> InvalidStatement:
        action = (
            "keep the result in a table or stream: CREATE ... AS SELECT, and query that"
            if self._select.changes
            else _PUSH_HINT
        )
        return self._script.unsupported(self._select.at, fact, action=action)

    def _aggregated(self) -> bool:
        select = self._select
        nodes = [i.expression for i in select.items if i.expression is not None]
        nodes += [select.having] if select.having is not None else []
        called = any(self._functions.aggregates_in(n) for n in nodes)
        if called and select.changes:
            raise self._refused("Push queries don't support aggregate functions.")
        return called or bool(select.group_by) or select.having is not None

    def _where(self) -> tuple[Expression | None, Bounds]:
        node = self._select.where
        if node is None:
            return None, EVERYTHING
        rows = self._rows("WHERE")
        with naming("WHERE"):
            condition = tried(rows.condition(node))
        return condition, bounds_of(node, rows, self._bounded())

    def _keyed(self) -> Keyed:
        select = self._select
        if select.where is None or select.changes:
            return Keyed()
        return keyed_of(self._script, select.where, self._relation.source.key_columns)

    def _bounded(self) -> dict[str, SqlType]:
        kinds = (FieldKind.KEY, FieldKind.BOUND)
        return {f.name: f.column.type for f in self._relation.fields if f.kind in kinds}

    def _outputs(self, rows: Translator, items: list[Item]) -> tuple[NamedExpression, ...]:
        with naming("SELECT"):
            return tuple(self._output(rows, i) for i in items)

    def _output(self, rows: Translator, item: Item) -> NamedExpression:
        made = rows.expression(item.expression)
        if made is None:
            raise self._script.invalid(
                item.at,
                "Can't infer a type of null. Please explicitly cast it to a required type, "
                f"e.g. CAST(null AS VARCHAR). {item.name} is NULL",
            )
        if made.type.depth > NESTED_MAX:
            raise self._script.unsupported(
                item.at, f"{item.name} is nested {made.type.depth} deep, {NESTED_MAX} are allowed"
            )
        return NamedExpression(item.name, evaluated(made))

    def _grouped(self, read: Read) -> Read:
        select = self._select
        keys = grouping_keys(self._rows("GROUP BY"), select.group_by)
        scope = GroupedScope(self._script, self._rows("SELECT"), keys, self._functions)
        after = Translator(self._script, scope)
        outputs = self._outputs(after, self._items())
        having = self._having(after, scope)
        made = grouping(self._script, select.at, keys, scope.calls, having)
        return Read(
            source=read.source,
            push=False,
            outputs=outputs,
            condition=read.condition,
            bounds=read.bounds,
            limit=read.limit,
            grouping=made,
            keyed=read.keyed,
        )

    def _having(self, after: Translator, scope: GroupedScope) -> Expression | None:
        if self._select.having is None:
            return None
        scope.clause = "HAVING"
        with naming("HAVING"):
            return tried(after.condition(self._select.having))


def _relation(source: Source, alias: str | None) -> Relation:
    """The rows of a table or stream as they are read: by their own names, windows among them."""
    owner = alias or source.name

    def made(column: Column, kind: FieldKind) -> Field:
        return Field(owner, column.name, column, kind, read_column(column))

    fields = [made(c, FieldKind.KEY) for c in source.key_columns]
    if source.window is not None:
        fields += [made(Column(name, BIGINT), FieldKind.BOUND) for name in WINDOW_BOUNDS]
    fields += [made(c, FieldKind.VALUE) for c in source.value_columns]
    pseudo = made(Column("ROWTIME", BIGINT), FieldKind.PSEUDO)
    # `joined`: a star gives the bounds of windows as well.
    return Relation(
        source,
        (*fields, pseudo),
        (owner,),
        keys=tuple(f for f in fields if f.kind is FieldKind.KEY),
        joined=True,
        names=((source.name, owner),) if owner != source.name else (),
    )
