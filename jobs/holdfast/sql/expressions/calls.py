"""Function calls: which signature is meant, and its text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from holdfast.sql.expressions.lambdas import LAMBDA_FUNCTIONS, lambda_call
from holdfast.sql.expressions.scope import call_name
from holdfast.sql.expressions.typed import Typed
from holdfast.sql.functions.catalog import function_names, lookup_function
from holdfast.sql.functions.signatures import (
    UNITS,
    Call,
    CallRefusedError,
    NoOverloadError,
    Overload,
    choose,
    render,
)
from holdfast.sql.parse.script import did_you_mean, start_of
from holdfast.sql.released import as_released

if TYPE_CHECKING:
    from holdfast.sql.expressions.translator import Translator

__all__ = ["Calls"]


class Calls:
    """The function calls of one translator."""

    def __init__(self, translator: Translator) -> None:
        self._translator = translator
        self._script = translator.script

    def lambda_alone(self, node: exp.Lambda) -> Typed:
        """A lambda that is no argument of a function that takes one.

        Raises:
            InvalidStatement: always.
        """
        raise self._script.invalid(
            start_of(node),
            "a lambda function (x => ...) stands only in TRANSFORM, FILTER and REDUCE",
        )

    def call(self, node: exp.Anonymous) -> Typed:
        """A call of a scalar function.

        Raises:
            InvalidStatement: there is no such function, or it does not take the arguments.
            Unsupported: the engine cannot evaluate it.
        """
        name = call_name(node) or ""
        if name in LAMBDA_FUNCTIONS:
            return lambda_call(self._translator, name, node)
        overloads = lookup_function(name)
        if not overloads:
            known = [*function_names(), *LAMBDA_FUNCTIONS]
            names = self._translator.scope.function_names()
            raise self._script.invalid(
                node.meta.get("start", 0),
                f"Can't find any functions with the name '{name}'",
                action=_which(did_you_mean(name, [*known, *names])),
            )
        return self._chosen(name, node, overloads)

    def _chosen(self, name: str, node: exp.Anonymous, overloads: tuple[Overload, ...]) -> Typed:
        at = node.meta.get("start", 0)
        nodes = [n for n in node.expressions if not isinstance(n, exp.Star)]
        given = [self._argument(a, i, overloads) for i, a in enumerate(nodes)]
        types = [t.type for t in given]
        try:
            overload, bound = choose(name, overloads, types)
        except NoOverloadError as error:
            raise self._script.invalid(at, str(error)) from None
        args = tuple(
            self._translator.coerce(t, overload.argument_type(i, t.type, bound), nodes[i])
            for i, t in enumerate(given)
        )
        result = overload.result_type(bound, types)
        if result is None:
            raise self._script.invalid(at, f"the type of {name} over NULL is not known",
                                      action="use CAST(NULL AS ...)")  # fmt: skip
        self._translator.notes.deterministic &= overload.deterministic
        call = Call(self._translator.engine, args, result, name, self._translator.notes)
        text = self._rendered(overload, call, at)
        return Typed(result, text, ref=args[0].ref if name == "AS_VALUE" else None)

    def _rendered(self, overload: Overload, call: Call, at: int) -> str:
        before = as_released(overload)
        self._translator.notes.changed |= before is not overload
        overload = before if self._translator.released else overload
        try:
            text = render(overload, call)
        except CallRefusedError as error:
            raise self._script.unsupported(at, str(error)) from None
        if text is None:
            raise self._no_rendering(call.name, at)
        return text

    def _argument(self, node: exp.Expr, index: int, overloads: Sequence[Overload]) -> Typed:
        wants_unit = index == 0 and any(o.params and o.params[0].word == "UNIT" for o in overloads)
        if wants_unit:
            word = str(node.this.this).upper() if isinstance(node, exp.Column) else ""
            unit = word if word.endswith("S") else f"{word}S"
            if unit in UNITS:
                return Typed(None, unit, constant=(unit,))
        return self._translator.translate(node)

    def _no_rendering(self, name: str, at: int) -> Exception:
        return self._script.unsupported(
            at,
            f"{name} with these arguments cannot be evaluated {self._translator.scope.place}",
            cause=f"{self._translator.engine.name} has no function that gives what ksqlDB's "
            f"{name} gives, or an option that must be a literal is not one that is known",
            action="apply it in an earlier statement (CREATE STREAM ... AS SELECT) or before "
            "the aggregation (in WHERE, GROUP BY or an aggregate's argument)",
        )


def _which(hint: str) -> str:
    """The advice about an unknown function."""
    own = (
        "`holdfast functions` lists them; a function of yours is read with --set functions=FILE.py"
    )
    return f"{hint}\n{own}".strip()
