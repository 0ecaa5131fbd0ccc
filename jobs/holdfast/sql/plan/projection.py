"""The SELECT list: stars expanded, every column named as ksqlDB names it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sqlglot import exp

from holdfast.sql.expressions.translator import Translator
from holdfast.sql.expressions.typed import describe
from holdfast.sql.parse.script import Script, resolve_identifier, start_of
from holdfast.sql.parse.statements import Select, SelectItem
from holdfast.sql.plan.relation import RESERVED_NAMES, Field, Relation
from holdfast.types.columns.schema import Base

__all__ = ["ColumnNames", "Item", "check_column_name", "expand", "plain_column", "reference"]

_NUMBERED = re.compile(r"(?P<name>.*?)(?:_(?P<number>\d{1,18}))?", re.DOTALL)


@dataclass(frozen=True)
class Item:
    """One output column: its expression and its name."""

    expression: exp.Expr
    name: str
    at: int


class ColumnNames:
    """Names for expressions without an alias: KSQL_COL_0, …, and those of struct fields.

    A number is left out when the sources have a column of that name and number.
    """

    def __init__(self, columns: Iterable[str]) -> None:
        self._used: dict[str, set[int]] = {}
        self._next: dict[str, int] = {}
        for column in columns:
            name, number = _split(column)
            self._used.setdefault(name, set()).add(number)

    def unique(self) -> str:
        """The next KSQL_COL_n."""
        return f"KSQL_COL_{self._number('KSQL_COL')}"

    def of(self, node: exp.Expr) -> str:
        """The name of an expression that is no plain column."""
        if not isinstance(node, exp.Dot):
            return self.unique()
        field = node.expression
        identifier = field.this if isinstance(field, exp.Column) else field
        return self.numbered(_split(resolve_identifier(identifier))[0])

    def numbered(self, name: str) -> str:
        """A name with the next free number; 0 is not written."""
        number = self._number(name)
        return f"{name}_{number}" if number else name

    def _number(self, name: str) -> int:
        number = self._next.get(name, 0)
        while number in self._used.get(name, ()):
            number += 1
        self._next[name] = number + 1
        return number


def _split(column: str) -> tuple[str, int]:
    match = _NUMBERED.fullmatch(column)
    assert match is not None
    return match["name"], int(match["number"] or 0)


def check_column_name(script: Script, at: int, name: str) -> None:
    """Refuse names that internal columns have."""
    if name.startswith("__"):
        raise script.invalid(at, f"{name}: names that start with __ are reserved")
    if '"' in name or "`" in name or not name.strip():
        raise script.unsupported(
            at, f"the column name {name!r} is not supported", action="leave out the quotes"
        )


def plain_column(node: exp.Expr) -> exp.Column | None:
    """The column an expression is nothing more than, if so."""
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier):
        return node
    return None


def reference(field: Field, at: int) -> exp.Column:
    """An expression that names a relation's column."""
    parts = [exp.Identifier(this=field.name, quoted=True)]
    if field.owner:
        parts.append(exp.Identifier(this=field.owner, quoted=True))
    for part in parts:
        part.meta["start"] = at
    return exp.Column(this=parts[0], table=parts[1] if field.owner else None)


def expand(
    script: Script,
    select: Select,
    relation: Relation,
    before: Translator,
    *,
    transient: bool = False,
) -> tuple[list[Item], ColumnNames]:
    """The projection's columns in order, and the generator of further names.

    `transient`: of a pull or push query, which may show pseudo columns under their own names.

    Raises:
        InvalidStatement: two columns of one name, a reserved name, an unknown source of a star.
    """
    names = ColumnNames(f.name for f in relation.fields)
    items: list[Item] = []
    for item in select.items:
        made = (
            _star(script, relation, item, partitioned=select.partition_by is not None)
            if item.expression is None
            else _of_item(script, relation, before, item, item.expression, names)
        )
        for found in made:
            check_column_name(script, found.at, found.name)
            if not (transient and _is_itself(found)):
                _refuse_reserved(script, found)
            if any(found.name == other.name for other in items):
                raise script.invalid(
                    found.at,
                    f"Duplicate value columns found in schema: {_said(before, found, transient)} "
                    "is selected twice",
                    action="give one of them an alias with AS",
                )
            items.append(found)
    return items, names


def _said(before: Translator, item: Item, transient: bool) -> str:
    """A column as ksqlDB writes it, where its type is known already."""
    if not transient:
        return item.name
    return f"`{item.name}` {describe(before.translate(item.expression).type)}"


def _is_itself(item: Item) -> bool:
    column = plain_column(item.expression)
    return column is not None and resolve_identifier(column.this) == item.name


def _refuse_reserved(script: Script, item: Item) -> None:
    reserved = item.name.upper()
    if reserved not in RESERVED_NAMES:
        return
    column = plain_column(item.expression)
    if column is not None and str(column.this.this).upper() == reserved:
        raise script.invalid(
            item.at,
            f"Reserved column name in select: `{reserved}`. Please remove or alias the column.",
            action=f"{reserved} AS MY_{reserved}",
        )
    raise script.invalid(
        item.at,
        f"`{reserved}` is a reserved column name. You cannot use it as an alias for a column.",
    )


def _star(
    script: Script, relation: Relation, item: SelectItem, *, partitioned: bool
) -> Iterator[Item]:
    owner = item.qualifier.text if item.qualifier else None
    known = [*relation.owners, *(other for other, _ in relation.names)]
    if owner is not None and owner not in known:
        raise script.invalid(
            item.at,
            f"Failed to prepare statement: '{owner}' is not a valid stream/table name or alias.",
            action=f"known are: {', '.join(known)}",
        )
    for field in relation.star(owner, partitioned=partitioned):
        name = field.column.name if relation.joined else field.name
        yield Item(reference(field, item.at), name, item.at)


def _of_item(
    script: Script,
    relation: Relation,
    before: Translator,
    item: SelectItem,
    node: exp.Expr,
    names: ColumnNames,
) -> Iterator[Item]:
    if isinstance(node, exp.Dot) and _is_star(node.expression):
        yield from _fields(script, before, node, item.at)
    else:
        yield Item(node, item.alias.text if item.alias else _name(node, relation, names), item.at)


def _is_star(node: exp.Expr) -> bool:
    return isinstance(node, exp.Star) or (
        isinstance(node, exp.Column) and isinstance(node.this, exp.Star)
    )


def _fields(script: Script, before: Translator, node: exp.Dot, at: int) -> Iterator[Item]:
    struct = before.translate(node.this).type
    if struct is None or struct.base is not Base.STRUCT:
        raise script.invalid(
            start_of(node), f"->* needs a STRUCT, but this is {struct}, not a STRUCT type."
        )
    for field in struct.fields:
        identifier = exp.Identifier(this=field.name, quoted=True)
        identifier.meta["start"] = at
        dot = exp.Dot(this=node.this.copy(), expression=identifier)
        yield Item(dot, field.name, at)


def _name(node: exp.Expr, relation: Relation, names: ColumnNames) -> str:
    column = plain_column(node)
    if column is None:
        while isinstance(node, exp.Paren):
            node = node.this
        return names.of(node)
    name, table = resolve_identifier(column.this), column.args.get("table")
    if table is None or not relation.clashing(name):
        return name
    found = relation.find(name, resolve_identifier(table))
    return found[0].column.name if found and relation.joined else name
