"""+ - * / % over numbers, and + and || over text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from holdfast.sql.expressions.engines import DUCKDB, Engine
from holdfast.sql.expressions.literals import literal
from holdfast.sql.expressions.type_rules import arithmetic_type, decimal_of
from holdfast.sql.expressions.typed import Typed
from holdfast.sql.functions.signatures import Call, py
from holdfast.sql.parse.script import start_of
from holdfast.types.columns.schema import DOUBLE, STRING, Base, SqlType

if TYPE_CHECKING:
    from holdfast.sql.expressions.translator import Translator

__all__ = ["Arithmetic"]

_OPERATORS: dict[type[exp.Expr], str] = {
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%",
}  # fmt: skip
_WHOLE = (Base.INTEGER, Base.BIGINT)
_DECIMAL = {
    "+": "DECIMAL_ADD", "-": "DECIMAL_SUBTRACT", "*": "DECIMAL_MULTIPLY", "/": "DECIMAL_DIVIDE",
}  # fmt: skip
_DIGITS_MAX = 38
_NARROW = 18  # digits of a DECIMAL that DuckDB keeps in 64 bits


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
        sql, number = value.sql, value.type
        return Typed(number, self._as_released(lambda engine: engine.negated(sql, number)))

    def _as_released(self, render: Callable[[Engine], str]) -> str:
        """The text of today, or of the first release if that is asked for."""
        translator = self._translator
        text, before = render(translator.engine), render(translator.engine.before)
        translator.notes.changed |= text != before
        return before if translator.released else text

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
        if result.base is not Base.DECIMAL:
            left, right = (self._translator.coerce(t, result, node) for t in (left, right))
        text = self._as_released(lambda e: self._numbers(e, operator, left, right, result))
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
        self, engine: Engine, operator: str, left: Typed, right: Typed, result: SqlType
    ) -> str:
        if engine is DUCKDB and result.base is Base.DECIMAL and not _fits(operator, left, right):
            return self._exact(operator, left, right, result)
        if engine is DUCKDB and result.base is Base.DECIMAL:
            left = _roomy(operator, left, right)
        by_zero = not right.constant or not right.constant[0]
        if result == DOUBLE and operator in "/%" and by_zero:
            divided = engine.divide_doubles if operator == "/" else engine.modulo_doubles
            return divided(left.sql, right.sql)
        if result.base in _WHOLE:
            text = engine.wrapped(operator, left.sql, right.sql, result)
        elif operator == "/":
            text = engine.divide(left.sql, right.sql, whole=False)
        elif operator == "%":
            text = engine.modulo(left.sql, right.sql)
        else:
            text = f"({left.sql} {operator} {right.sql})"
        # Whole division is BIGINT in Spark, and decimals have each engine's own precision.
        widened = operator == "/" and result.base is Base.INTEGER
        exact = result.base is not Base.DECIMAL and not widened
        return text if exact else f"CAST({text} AS {engine.type_name(result)})"

    def _exact(self, operator: str, left: Typed, right: Typed, result: SqlType) -> str:
        """Arithmetic of DECIMALs by Python: DuckDB has no exact one of so many digits."""
        made = arithmetic_type(operator, _least_decimal(left), _least_decimal(right))
        call = Call(DUCKDB, (left, right), made, notes=self._translator.notes)
        return f"TRY_CAST({py(_DECIMAL[operator])(call)} AS {DUCKDB.type_name(result)})"


def _fits(operator: str, left: Typed, right: Typed) -> bool:
    """Whether DuckDB's result is exact: it does not divide, and has no room for more digits."""
    a, b = (decimal_of(t.type) if t.type else None for t in (left, right))
    if operator == "%" or a is None or b is None:
        return True
    if operator == "*":
        return a.precision + b.precision < _DIGITS_MAX
    whole = max(a.precision - a.scale, b.precision - b.scale)
    return operator != "/" and whole + max(a.scale, b.scale) < _DIGITS_MAX


def _roomy(operator: str, left: Typed, right: Typed) -> Typed:
    """The left operand, of so many digits that DuckDB's result may have more than 18.

    Of two operands with at most 18 digits DuckDB makes a result with at most 18.
    """
    a, b = (decimal_of(t.type) if t.type else None for t in (left, right))
    if operator not in "+-*" or a is None or b is None or max(a.precision, b.precision) > _NARROW:
        return left
    roomy = SqlType(Base.DECIMAL, precision=_NARROW + 1, scale=a.scale)
    return replace(left, sql=f"CAST({left.sql} AS {DUCKDB.type_name(roomy)})")


def _least_decimal(value: Typed) -> SqlType:
    """The type of an operand for Spark, which counts the digits of a whole literal."""
    assert value.type is not None
    if value.type.base in _WHOLE and value.constant:
        digits = len(str(abs(int(value.constant[0] or 0))))
        return SqlType(Base.DECIMAL, precision=digits, scale=0)
    if value.type.base is Base.BIGINT:
        return SqlType(Base.DECIMAL, precision=20, scale=0)
    return value.type
