"""GROUP BY: one row of state per key (and window)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from holdfast.errors import InvalidStatement
from holdfast.sql.expressions.clause_errors import naming
from holdfast.sql.expressions.determinism import check_determined
from holdfast.sql.expressions.formatted import formatted
from holdfast.sql.expressions.names import (
    AggregateScope,
    could_be_key,
    known_function,
    relation_translator,
)
from holdfast.sql.expressions.translator import Translator, call_name
from holdfast.sql.parse.script import resolve_identifier, start_of
from holdfast.sql.parse.statements import Select, WindowClause
from holdfast.sql.plan.context import Context
from holdfast.sql.plan.explode import refuse_table_functions
from holdfast.sql.plan.keys import check_key_type, missing_key
from holdfast.sql.plan.own_scale import with_digits
from holdfast.sql.plan.project import not_grouped
from holdfast.sql.plan.projection import Item, expand
from holdfast.sql.plan.relation import Relation
from holdfast.sql.plan.window import plan_window
from holdfast.types.columns.schema import STRING
from holdfast.types.statements.expressions import in_type
from holdfast.types.statements.topology import (
    AggregateCall,
    AggregateStep,
    Emit,
    Expression,
    Format,
    NamedExpression,
    Window,
)

__all__ = ["evaluated", "plan_aggregate", "tried"]


def plan_aggregate(context: Context, select: Select, relation: Relation) -> AggregateStep:
    """The step of a SELECT with GROUP BY.

    The grouping expressions that are selected are the key columns, named as the SELECT names
    them; AS_VALUE(x) makes a copy in the value.

    Raises:
        InvalidStatement: a grouping expression is not selected, a column is neither grouped nor
            aggregated, a window's lengths contradict each other.
    """
    refuse_table_functions(context, select)
    return _Planner(context, select, relation).plan()


class _Planner:
    def __init__(self, context: Context, select: Select, relation: Relation) -> None:
        self._context = context
        self._script = context.script
        self._select = select
        self._relation = relation
        # ksqlDB knows no window bounds over a join.
        self._bounds = select.window is not None and not relation.joined
        # A key that is not selected is told of last: what is wrong with a column says more.
        self._missing: list[str] = []
        self._grouping = self._translator("GROUP BY")
        self._before = self._translator("SELECT")
        self._items, _ = expand(context.script, select, relation, self._before)

    def _translator(self, clause: str) -> Translator:
        return relation_translator(
            self._script, self._relation, self._context.functions, clause, windowed=self._bounds
        )

    def plan(self) -> AggregateStep:
        self._refuse_no_aggregates()
        keys, values = self._keys()
        # Twice: the first pass finds the aggregates, the second names them in their own order,
        # so that neither the SELECT's order nor HAVING changes what is stored.
        found = self._evaluate(keys, values, ())[0].calls
        scope, outputs, condition = self._evaluate(keys, values, sorted(found, key=_order))
        self._check(scope, outputs)
        self._refuse_missing()
        window = self._select.window
        return AggregateStep(
            keys=keys,
            window=None if window is None else self._window(window),
            aggregates=scope.calls,
            outputs=outputs,
            having=condition,
            emit=Emit.FINAL if self._select.final else self._context.emit,
        )

    def _window(self, clause: WindowClause) -> Window:
        if not self._select.final:
            return plan_window(self._script, clause)
        window = plan_window(self._script, clause, final=True)
        return replace(window, final_within_retention=self._context.final_within_retention)

    def _evaluate(
        self,
        keys: tuple[NamedExpression, ...],
        values: Sequence[Item],
        calls: Sequence[AggregateCall],
    ) -> tuple[AggregateScope, tuple[NamedExpression, ...], Expression | None]:
        scope = AggregateScope(
            self._script, self._before, keys, self._context.functions, self._bounds, calls
        )
        after = Translator(self._script, scope)
        with naming("SELECT"):
            outputs = self._outputs(after, scope, values)
        having = self._select.having
        scope.clause = "HAVING"
        if having is None:
            return scope, outputs, None
        with naming("HAVING"):
            condition = tried(after.condition(having))
        if not self._select.final:
            check_determined(self._script, condition, having, "HAVING", key=False)
        return scope, outputs, condition

    def _outputs(
        self, after: Translator, scope: AggregateScope, values: Sequence[Item]
    ) -> tuple[NamedExpression, ...]:
        outputs: list[NamedExpression] = []
        wrong: list[exp.Expr] = []
        for item in values:
            try:
                outputs.append(self._output(after, item))
            except InvalidStatement:
                if not scope.ungrouped:
                    raise
                scope.ungrouped = False
                wrong.append(item.expression)
        if wrong:
            raise not_grouped(self._context, self._relation, wrong)
        return tuple(outputs)

    def _group(self, node: exp.Expr) -> Expression:
        self._refuse_alias(node)
        made = self._grouping.expression(node)
        if made is None:
            raise self._script.invalid(start_of(node), "GROUP BY NULL has no key",
                                       action="name a column")  # fmt: skip
        if self._relation.source.kind == "STREAM":  # a table's group is kept with its row
            check_determined(self._script, made, node, "GROUP BY")
        check_key_type(self._script, start_of(node), self._script.excerpt(node), made.type)
        return made

    def _refuse_alias(self, node: exp.Expr) -> None:
        if not isinstance(node, exp.Column) or node.args.get("table"):
            return
        for item in self._select.items:
            alias, expression = item.alias, item.expression
            if alias is None or expression is None:
                continue
            if alias.text == resolve_identifier(node.this) and not self._is_column(node):
                raise self._script.invalid(
                    start_of(node),
                    f"GROUP BY column '{alias.text}' cannot be resolved. GROUP BY cannot use an "
                    "alias of the SELECT",
                    action="repeat the expression in GROUP BY",
                )

    def _is_column(self, node: exp.Column) -> bool:
        try:
            self._grouping.translate(node)
        except InvalidStatement:
            return False
        return True

    def _keys(self) -> tuple[tuple[NamedExpression, ...], list[Item]]:
        """Key columns in GROUP BY's order, and the items that are left for the value."""
        groups = [self._group(node) for node in self._select.group_by]
        texts = [g.sql for g in groups]
        found: dict[str, Item] = {}
        values: list[Item] = []
        for item in self._items:
            text = self._before_text(item)
            if text not in texts:
                values.append(item)
            elif text in found:
                self._refuse_second_key(item, found[text])
            else:
                found[text] = item
        keys: list[NamedExpression] = []
        for node, group in zip(self._select.group_by, groups, strict=True):
            if group.sql in [k.sql for k in keys]:
                shown = formatted(self._script, node, self._relation)
                raise self._script.invalid(
                    start_of(node), f"Duplicate GROUP BY expression: {shown}"
                )
            keys.append(self._key(node, group, found.get(group.sql)))
        self._refuse_same_folded()
        return tuple(keys), values

    def _key(self, node: exp.Expr, group: Expression, item: Item | None) -> NamedExpression:
        if item is None:
            shown = formatted(self._script, node, self._relation, qualified=False)
            self._missing.append(shown)
            return NamedExpression(f"__{shown}", group)
        return NamedExpression(item.name, group)

    def _refuse_missing(self) -> None:
        if self._missing:
            raise missing_key(
                self._script, self._select.at, self._context.sink, "grouping expression",
                self._missing,
            )  # fmt: skip

    def _before_text(self, item: Item) -> str | None:
        """The item's text when it could be a grouping expression."""
        node = item.expression
        if call_name(node) == "AS_VALUE":
            text = self._script.excerpt(node).upper()
            grouped = (self._script.excerpt(n).upper() for n in self._select.group_by)
            return self._before.translate(node).sql if text in grouped else None
        literal = isinstance(node, exp.Literal | exp.Boolean)
        functions = self._context.functions
        if not literal and not could_be_key(node, functions, windowed=self._bounds):
            return None
        return self._before.translate(node).sql

    def _refuse_second_key(self, item: Item, first: Item) -> None:
        raise self._script.invalid(
            item.at,
            f"The projection contains a key column more than once: `{first.name}` and "
            f"`{item.name}`. Each key column must only be in the projection once.",
            action="AS_VALUE(column) copies a key column into the value",
        )

    def _refuse_same_folded(self) -> None:
        # DuckDB does not tell A from a, quoted or not.
        folded = [item.name.upper() for item in self._items]
        twice = next((i for n, i in enumerate(self._items) if folded[n] in folded[:n]), None)
        if twice is not None:
            raise self._script.unsupported(
                twice.at,
                f"columns of an aggregation whose names differ only in case: {twice.name}",
                action="give it another alias",
            )

    def _output(self, after: Translator, item: Item) -> NamedExpression:
        made = after.expression(item.expression)
        if made is None:
            raise self._script.invalid(item.at, f"{item.name} is NULL and has no type",
                                       action="use CAST(NULL AS ...)")  # fmt: skip
        if self._context.as_ksqldb:
            made = with_digits(after, item.expression, made)
        return NamedExpression(item.name, evaluated(made))

    def _refuse_no_aggregates(self) -> None:
        nodes = [item.expression for item in self._items]
        nodes += [self._select.having] if self._select.having is not None else []
        calls = [n for node in nodes for n in node.find_all(exp.Anonymous)]
        unknown = any(not self._known(call) for call in calls)  # the better message
        if not unknown and not any(map(self._context.functions.aggregates_in, nodes)):
            raise self._script.invalid(
                start_of(self._select.group_by[0]),
                "GROUP BY requires aggregate functions in either the SELECT or HAVING clause.",
                action="add one, for example COUNT(*)",
            )

    def _known(self, call: exp.Anonymous) -> bool:
        return known_function(call) or bool(self._context.functions.aggregates_in(call))

    def _check(self, scope: AggregateScope, outputs: Sequence[NamedExpression]) -> None:
        self._refuse_structured(scope.calls)
        if not outputs and not self._missing:
            raise self._script.invalid(
                self._select.at, "The projection contains no value columns.",
                action="select an aggregate or AS_VALUE(key)",
            )  # fmt: skip

    def _refuse_structured(self, calls: Sequence[AggregateCall]) -> None:
        """ksqlDB keeps the state of an aggregation in the format of what it reads."""
        if self._relation.source.value_format is not Format.DELIMITED:
            return
        functions = [(c.function, self._context.functions.aggregate(c.function)) for c in calls]
        names = sorted(name for name, found in functions if found is not None and not found.plain)
        if names:
            raise self._script.invalid(
                self._select.at,
                "One of the functions used in the statement has an intermediate type that the "
                "value format can not handle. Please remove the function or change the format. "
                f"{', '.join(names)} over DELIMITED",
            )


def _order(call: AggregateCall) -> tuple[str, tuple[str, ...], str]:
    return call.function, tuple(a.canonical for a in call.args), repr(call.literals)


def tried(made: Expression) -> Expression:
    """An expression for DuckDB whose errors are NULL."""
    return made.mapped(lambda sql: f"TRY({sql})")


def evaluated(made: Expression) -> Expression:
    """The same, of exactly the column's type; what is only a column is that already."""
    if made.ref is not None:
        return made
    whole = made.mapped(lambda sql: in_type(sql, made.type))
    return replace(whole, digits=in_type(made.digits, STRING)) if made.digits else whole
