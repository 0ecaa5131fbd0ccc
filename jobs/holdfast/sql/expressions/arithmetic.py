"""+ - * / % over numbers, and + and || over text."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sqlglot import exp

from holdfast.sql.expressions.literals import literal
from holdfast.sql.expressions.type_rules import arithmetic_type
from holdfast.sql.expressions.typed import Typed
from holdfast.sql.parse.script import start_of
from holdfast.types.schema import DOUBLE, STRING, Base, SqlType

if TYPE_CHECKING:
    from holdfast.sql.expressions.translator import Translator

__all__ = ["Arithmetic"]

_OPERATORS: dict[type[exp.Expr], str] = {
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%",
}  # fmt: skip
_WHOLE = (Base.INTEGER, Base.BIGINT)


class Arithmetic:
    """The arithmetic of one translator."""

    def __init__(self, translator: Translator) -> None:
        self._translator = translator
        self.handlers: dict[type[exp.Expr], Callable[..., Typed]] = {
            exp.Neg: self._negative,
            exp.DPipe: self._binary,
            **dict.fromkeys(_OPERATORS, self._binary),
        }

    def _negative(self, node: exp.Neg) -> Typed:
        translator = self._translator
        if isinstance(node.this, exp.Literal) and not node.this.is_string:
            return literal(translator.engine, translator.script, node.this, negative=True)
        value = translator.translate(node.this)
        if value.type is None or not value.type.numeric:
            raise self._refused(node, value, value)
        return Typed(value.type, f"(- {value.sql})")

    def _binary(self, node: exp.Binary) -> Typed:
        left = self._translator.translate(node.this)
        right = self._translator.translate(node.expression)
        operator = _OPERATORS.get(type(node), "+")
        types = [t for t in (left.type, right.type) if t is not None]
        if operator == "+" and types and all(t == STRING for t in types):
            return Typed(STRING, self._translator.engine.concat(left.sql, right.sql))
        if isinstance(node, exp.DPipe) or not types or not all(t.numeric for t in types):
            raise self._refused(node, left, right)
        result = arithmetic_type(operator, types[0], types[-1])
        text = self._numbers(operator, left, right, result, node)
        engine = self._translator.engine
        return Typed(result, self._translator.scope.arithmetic(text, engine.type_name(result)))

    def _refused(self, node: exp.Expr, left: Typed, right: Typed) -> Exception:
        types = " ".join("NULL" if t.type is None else t.type.base for t in (left, right))
        script = self._translator.script
        return script.invalid(
            start_of(node),
            f"Error processing expression: {script.excerpt(node)}. "
            f"Unsupported arithmetic types. {types}",
            action="arithmetic needs numbers on both sides, + and || also join text; use CAST",
        )

    def _numbers(
        self, operator: str, left: Typed, right: Typed, result: SqlType, node: exp.Expr
    ) -> str:
        engine = self._translator.engine
        if result.base is not Base.DECIMAL:
            left, right = (self._translator.coerce(t, result, node) for t in (left, right))
        by_zero = not right.constant or not right.constant[0]
        if result == DOUBLE and operator in "/%" and by_zero:
            divided = engine.divide_doubles if operator == "/" else engine.modulo_doubles
            return divided(left.sql, right.sql)
        whole = result.base in _WHOLE
        if operator == "/":
            text = engine.divide(left.sql, right.sql, whole=whole)
        elif operator == "%":
            text = engine.modulo(left.sql, right.sql)
        else:
            text = f"({left.sql} {operator} {right.sql})"
        # Whole division is BIGINT in Spark, and decimals have each engine's own precision.
        widened = operator == "/" and result.base is Base.INTEGER
        exact = result.base is not Base.DECIMAL and not widened
        return text if exact else f"CAST({text} AS {engine.type_name(result)})"
