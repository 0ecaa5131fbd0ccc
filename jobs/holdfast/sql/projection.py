"""The SELECT list: stars expanded, every column named."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from holdfast.sql.expressions import Translator
from holdfast.sql.scopes import RESERVED_NAMES
from holdfast.sql.script import Script, resolve_identifier, start_of
from holdfast.sql.statements import Select, SelectItem
from holdfast.types.schema import Base
from holdfast.types.topology import Source

__all__ = ["Item", "KsqlColumnNames", "check_column_name", "expand"]


@dataclass(frozen=True)
class Item:
    """One output column: its expression and its name."""

    expression: exp.Expr
    name: str
    at: int


class KsqlColumnNames:
    """KSQL_COL_0, KSQL_COL_1 …: names for expressions without an alias, never one that is taken."""

    def __init__(self, taken: set[str]) -> None:
        self._taken = taken
        self._next = 0

    def unique(self) -> str:
        """The next generated name."""
        while True:
            name = f"KSQL_COL_{self._next}"
            self._next += 1
            if name not in self._taken:
                return name

    def of_field(self, field: str) -> str:
        """A struct field's own name, with a number where it is taken."""
        name, count = field, 0
        while name in self._taken:
            count += 1
            name = f"{field}_{count}"
        self._taken.add(name)
        return name


def check_column_name(script: Script, at: int, name: str) -> None:
    """Refuse names that pseudo columns and internal columns have."""
    if name in RESERVED_NAMES:
        raise script.invalid(
            at, f"{name} is a reserved column name", action=f"give it an alias: {name} AS MY_{name}"
        )
    if name.startswith("__"):
        raise script.invalid(at, f"{name}: names that start with __ are reserved")
    if '"' in name or "`" in name or not name.strip():
        raise script.unsupported(
            at, f"the column name {name!r} is not supported", action="leave out the quotes"
        )


def expand(
    script: Script, select: Select, source: Source, before: Translator
) -> tuple[list[Item], KsqlColumnNames]:
    """The projection's columns in order, and the generator of further names.

    Raises:
        InvalidStatement: two columns of one name, a reserved name, an unknown source of a star.
    """
    taken = {c.name for c in source.columns} | {i.alias.text for i in select.items if i.alias}
    names = KsqlColumnNames(taken)
    items: list[Item] = []
    for item in select.items:
        for found in _of_item(script, select, source, before, item, names):
            check_column_name(script, found.at, found.name)
            if any(found.name == other.name for other in items):
                raise script.invalid(
                    found.at,
                    f"the column {found.name} is selected twice",
                    action="give one of them an alias with AS",
                )
            items.append(found)
    return items, names


def _of_item(
    script: Script,
    select: Select,
    source: Source,
    before: Translator,
    item: SelectItem,
    names: KsqlColumnNames,
) -> Iterator[Item]:
    node = item.expression
    if node is None:
        allowed = [source.name, *([select.source_alias.text] if select.source_alias else [])]
        if item.qualifier and item.qualifier.text not in allowed:
            raise script.unknown(item.at, "source", item.qualifier.text, allowed)
        for column in source.columns:
            identifier = exp.Identifier(this=column.name, quoted=True)
            identifier.meta["start"] = item.at
            yield Item(exp.Column(this=identifier), column.name, item.at)
    elif isinstance(node, exp.Dot) and _is_star(node.expression):
        yield from _fields(script, before, node, item.at, names)
    else:
        yield Item(node, item.alias.text if item.alias else _name(node, names), item.at)


def _is_star(node: exp.Expr) -> bool:
    return isinstance(node, exp.Star) or (
        isinstance(node, exp.Column) and isinstance(node.this, exp.Star)
    )


def _fields(
    script: Script, before: Translator, node: exp.Dot, at: int, names: KsqlColumnNames
) -> Iterator[Item]:
    struct = before.translate(node.this).type
    if struct is None or struct.base is not Base.STRUCT:
        raise script.invalid(start_of(node), f"->* needs a STRUCT, but this is {struct}")
    for field in struct.fields:
        identifier = exp.Identifier(this=field.name, quoted=True)
        identifier.meta["start"] = at
        dot = exp.Dot(this=node.this.copy(), expression=identifier)
        yield Item(dot, names.of_field(field.name), at)


def _name(node: exp.Expr, names: KsqlColumnNames) -> str:
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier):
        return resolve_identifier(node.this)
    if isinstance(node, exp.Dot):
        field = node.expression
        identifier = field.this if isinstance(field, exp.Column) else field
        return names.of_field(resolve_identifier(identifier))
    return names.unique()
