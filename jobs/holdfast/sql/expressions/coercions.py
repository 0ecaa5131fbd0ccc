"""The one type of a list that a user wrote: IN (…), and the parts of ARRAY and MAP.

The first part that is not NULL leads; what follows must convert to its type, or it to theirs:
numbers to the wider number, structs to all fields of both.  A literal converts more freely than
other expressions: text that holds a number is that number among numbers, and any literal is text
among texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING

from sqlglot import exp

from holdfast.sql.expressions.literals import is_literal, literal_text
from holdfast.sql.expressions.type_rules import common_type, decimal_like
from holdfast.sql.expressions.typed import Typed, describe
from holdfast.sql.parse.script import start_of
from holdfast.types.columns.schema import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INTEGER,
    STRING,
    Base,
    Column,
    SqlType,
)

if TYPE_CHECKING:
    from holdfast.sql.expressions.translator import Translator

__all__ = ["Coercions", "boolean_of"]

_NESTED = (Base.ARRAY, Base.MAP, Base.STRUCT)


def boolean_of(text: str) -> bool | None:
    """The BOOLEAN of a text: a beginning of true or yes, of false or no; None of any other."""
    word = text.strip().lower()
    if word and ("true".startswith(word) or "yes".startswith(word)):
        return True
    if word and ("false".startswith(word) or "no".startswith(word)):
        return False
    return None


class Coercions:
    """The lists of one translator."""

    def __init__(self, translator: Translator) -> None:
        self._translator = translator
        self._script = translator.script

    def common(self, nodes: Sequence[exp.Expr]) -> tuple[list[Typed], SqlType | None]:
        """The parts, converted to their one type; None when all are NULL.

        Raises:
            InvalidStatement: they have no type in common.
        """
        given = [self._translator.translate(n) for n in nodes]
        wanted: SqlType | None = None
        for node, typed in zip(nodes, given, strict=True):
            wanted = self._joined(node, typed.type, wanted)
        if wanted is None:
            return given, None
        pairs = zip(nodes, given, strict=True)
        return [self._converted(n, t, wanted) for n, t in pairs], wanted

    def _joined(
        self, node: exp.Expr, given: SqlType | None, wanted: SqlType | None
    ) -> SqlType | None:
        """The type that holds all before it and this one."""
        if given is None or wanted is None:
            return given or wanted
        inner = self._inside(node, given, wanted)
        if inner is not None:
            return inner
        if isinstance(node, exp.Literal) and node.is_string:
            text = str(node.this)
            if wanted.numeric:
                return self._number_in(text, wanted, node)
            if wanted == BOOLEAN and boolean_of(text) is None:
                raise self._no_value(text, wanted, node)
            if wanted == BOOLEAN:
                return wanted
        if is_literal(node) and wanted == STRING and given.base not in _NESTED:
            return STRING
        found = common_type((wanted, given))
        if found is None:
            raise self._no_operator(node, given, wanted)
        return found

    def _inside(self, node: exp.Expr, given: SqlType, wanted: SqlType) -> SqlType | None:
        """The type of a constructor, its parts joined with those of `wanted`; else None."""
        kind = _constructed(node)
        if kind is None:
            return None
        if wanted.base is not kind:
            raise self._no_operator(node, given, wanted)
        if wanted.element is not None and kind is Base.ARRAY:
            return SqlType(kind, element=self._all(node.expressions, wanted.element, node))
        if wanted.element is not None and kind is Base.MAP:
            key = self._all([p.this for p in node.expressions], wanted.map_key, node)
            values = [p.expression for p in node.expressions]
            return SqlType(kind, element=self._all(values, wanted.element, node), key=key)
        return self._struct(node, given, wanted)

    def _all(self, nodes: Sequence[exp.Expr], wanted: SqlType, of: exp.Expr) -> SqlType:
        found: SqlType = wanted
        for node in nodes:
            typed = self._translator.translate(node)
            found = self._joined(node, typed.type, found) or found
        return found

    def _struct(self, node: exp.Expr, given: SqlType, wanted: SqlType) -> SqlType:
        values = dict(
            zip([f.name for f in given.fields], [p.expression for p in node.expressions],
                strict=True)
        )  # fmt: skip
        mine = {f.name: f.type for f in given.fields}
        theirs = {f.name: f.type for f in wanted.fields}
        fields: list[Column] = []
        for name in dict.fromkeys([*mine, *theirs]):
            joined = (
                self._joined(values[name], mine[name], theirs[name])
                if name in mine and name in theirs
                else mine.get(name) or theirs[name]
            )
            assert joined is not None
            fields.append(Column(name, joined))
        return SqlType(Base.STRUCT, fields=tuple(fields))

    def _number_in(self, text: str, wanted: SqlType, node: exp.Expr) -> SqlType:
        """The type of numbers that also holds the one in the text."""
        try:
            number = Decimal(text.strip())
        except InvalidOperation:
            raise self._no_value(text, wanted, node) from None
        whole = not set(text) & set(".eE")
        if whole and -(2**31) < number < 2**31:
            given = INTEGER
        elif whole and -(2**63) < number < 2**63:
            given = BIGINT
        else:
            given = decimal_like(number)
        if wanted == DOUBLE:
            return DOUBLE
        return common_type((wanted, given)) or wanted

    def _converted(self, node: exp.Expr, typed: Typed, wanted: SqlType) -> Typed:
        if typed.type == wanted:
            return typed
        engine = self._translator.engine
        if is_literal(node) and wanted == STRING:
            text = literal_text(node)
            return Typed(STRING, engine.string(text), constant=(text,))
        if typed.type == STRING and typed.constant and wanted == BOOLEAN:
            return Typed(BOOLEAN, "true" if boolean_of(str(typed.constant[0])) else "false")
        return self._translator.coerce(typed, wanted, node)

    def _no_value(self, text: str, wanted: SqlType, node: exp.Expr) -> Exception:
        fact = f'invalid input syntax for type {wanted.base}: "{text}".'
        return self._script.invalid(start_of(node), fact)

    def _no_operator(self, node: exp.Expr, given: SqlType, wanted: SqlType) -> Exception:
        shown = self._script.excerpt(node)
        return self._script.invalid(
            start_of(node),
            f"operator does not exist: {describe(wanted)} = {describe(given)} ({shown})",
            action="You might need to add explicit type casts",
        )


def _constructed(node: exp.Expr) -> Base | None:
    if isinstance(node, exp.Array):
        return Base.ARRAY
    name = str(node.this).upper() if isinstance(node, exp.Anonymous) else ""
    return {"MAP": Base.MAP, "STRUCT": Base.STRUCT}.get(name)
