"""The catalog of scalar functions: signatures, result types, and how each engine spells them.

A signature is text, `NAME(TYPE, TYPE...) -> TYPE`: types are ksqlDB's; `T` and `U` stand for any
type (the same one wherever the letter is repeated), `N` for any number, `ANY` for anything,
`UNIT` for a unit of time written bare; a last `TYPE...` may be repeated, at least once.
A rendering is a template (`{0}` the first argument, `{*}` all, `{1*}` all from the second,
`{r}` the result type) or a function of the `Call`; None means the engine cannot do it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from holdfast.sql.expressions.engines import DUCKDB, SPARK, Engine
from holdfast.sql.expressions.notes import Notes
from holdfast.sql.expressions.type_rules import common_type, converts_to, simple_type
from holdfast.sql.expressions.typed import Typed, describe
from holdfast.tasks.functions.names import DUCK, sql_name
from holdfast.types.columns.schema import BIGINT, DOUBLE, INTEGER, STRING, Base, SqlType

__all__ = [
    "UNITS",
    "Call",
    "CallRefusedError",
    "NoOverloadError",
    "Overload",
    "Rendering",
    "ResultType",
    "anew",
    "either",
    "fn",
    "in_duckdb",
    "is_whole",
    "py",
    "render",
    "too_large",
    "whole",
]

UNITS = ("MILLISECONDS", "SECONDS", "MINUTES", "HOURS", "DAYS", "WEEKS", "MONTHS", "YEARS")
_VARIABLES = ("T", "U", "N")
_PLACEHOLDER = re.compile(r"\{(\d*\*?|r)\}")


class NoOverloadError(Exception):
    """No signature fits the arguments."""


class CallRefusedError(Exception):
    """A literal argument is known to be more than can be evaluated."""


@dataclass(frozen=True)
class Call:
    """The arguments of one call, converted to what the signature wants.

    `notes` are of the expression that it is part of.
    """

    engine: Engine
    args: tuple[Typed, ...]
    result: SqlType
    name: str = ""
    notes: Notes = field(default_factory=Notes)

    def constant(self, index: int) -> str | int | float | bool | None:
        """The literal at `index`, or None when it is not a literal (or not there)."""
        if index >= len(self.args) or not self.args[index].constant:
            return None
        return self.args[index].constant[0]


Rendering = str | Callable[[Call], str | None] | None
ResultType = Callable[[Sequence[SqlType]], SqlType]


@dataclass(frozen=True)
class Pattern:
    """A type of a signature: a base type, a variable or ANY / UNIT, with its element."""

    word: str
    element: Pattern | None = None

    def __str__(self) -> str:
        key = "STRING, " if self.word == "MAP" else ""
        return self.word if self.element is None else f"{self.word}<{key}{self.element}>"

    def bind(self, given: SqlType | None, bound: dict[str, SqlType | None]) -> bool:
        """Whether `given` fits; records what the variables stand for."""
        if given is None or self.word == "ANY":
            bound.setdefault(self.word, given)
            return True
        if self.word in _VARIABLES:
            return self._bind_variable(given, bound)
        if self.element is not None:
            return given.base.value == self.word and self.element.bind(given.element, bound)
        if self.word in ("DECIMAL", "UNIT"):  # a unit has no type
            return given.base.value == self.word
        wanted = simple_type(self.word)
        return isinstance(wanted, SqlType) and converts_to(given, wanted)

    def _bind_variable(self, given: SqlType, bound: dict[str, SqlType | None]) -> bool:
        if self.word == "N" and not given.numeric:
            return False
        common = common_type([bound.get(self.word), given])
        bound[self.word] = common
        return common is not None

    def type(self, bound: dict[str, SqlType | None]) -> SqlType | None:
        """The concrete type, once the variables are known; None leaves the argument as it is."""
        if self.word in ("ANY", "UNIT", "DECIMAL"):
            return None
        if self.word in _VARIABLES:
            return bound.get(self.word)
        if self.element is not None:
            element = self.element.type(bound)
            return None if element is None else SqlType(Base(self.word), element=element)
        wanted = simple_type(self.word)
        return wanted if isinstance(wanted, SqlType) else None


def _pattern(text: str) -> Pattern:
    text = text.strip()
    if text.endswith(">"):
        word, _, inner = text[:-1].partition("<")
        return Pattern(word, _pattern(inner))
    return Pattern(text)


@dataclass(frozen=True)
class Overload:
    """One signature of a function with its two renderings."""

    name: str
    signature: str
    params: tuple[Pattern, ...]
    variadic: bool
    returns: Pattern
    spark: Rendering
    duckdb: Rendering
    result: ResultType | None = field(default=None)
    deterministic: bool = True  # the same arguments always give the same result

    def shown(self) -> str:
        """The signature with its result, for the reference."""
        signature = self.signature.replace("MAP<", "MAP<STRING, ")
        return f"{signature} -> {self.returns}"

    def accepts(self, count: int) -> bool:
        """Whether so many arguments fit."""
        return count >= len(self.params) if self.variadic else count == len(self.params)

    def param(self, index: int) -> Pattern:
        """The pattern of the argument at `index`."""
        return self.params[min(index, len(self.params) - 1)]

    def argument_type(
        self, index: int, given: SqlType | None, bound: dict[str, SqlType | None]
    ) -> SqlType | None:
        """The type that the argument at `index` converts to; None leaves it as it is."""
        pattern = self.param(index)
        wanted = pattern.type(bound)
        if wanted is None and given is None and pattern.element is not None:
            return pattern.type(dict.fromkeys(_VARIABLES, STRING))  # a NULL collection of anything
        return wanted

    def match(self, given: Sequence[SqlType | None]) -> dict[str, SqlType | None] | None:
        """The types of the type variables when the arguments fit, else None."""
        if not self.accepts(len(given)):
            return None
        bound: dict[str, SqlType | None] = {}
        fits = all(self.param(i).bind(t, bound) for i, t in enumerate(given))
        return bound if fits else None

    def result_type(
        self, bound: dict[str, SqlType | None], given: Sequence[SqlType | None]
    ) -> SqlType | None:
        """The type of the call; None when only NULLs were given."""
        if self.result is not None:
            return self.result([t for t in given if t is not None])
        return self.returns.type(bound)


def fn(
    signature: str,
    spark: Rendering,
    duckdb: Rendering = None,
    result: ResultType | None = None,
    *,
    deterministic: bool = True,
) -> Overload:
    """An entry of the catalog, from its signature's text."""
    head, _, returns = signature.partition("->")
    name, _, params = head.strip().removesuffix(")").partition("(")
    parts = [p for p in re.split(r",\s*(?![^<]*>)", params) if p.strip()]
    variadic = bool(parts) and parts[-1].strip().endswith("...")
    patterns = tuple(_pattern(p.strip().removesuffix("...")) for p in parts)
    text = head.strip()
    returned = _pattern(returns)
    return Overload(name, text, patterns, variadic, returned, spark, duckdb, result, deterministic)


def choose(
    name: str, overloads: Sequence[Overload], given: Sequence[SqlType | None]
) -> tuple[Overload, dict[str, SqlType | None]]:
    """The first signature that takes the types as they are, else the first that converts them.

    Raises:
        NoOverloadError: none fits, or several do and none is nearer; the message says so.
    """
    fitting = [(o, b) for o in overloads if (b := o.match(given)) is not None]
    exact = [(o, b) for o, b in fitting if _exact(o, b, given)]
    found = exact or fitting
    if not found or (name in _ALIKE and _ambiguous(found, given)):
        types = ", ".join("null" if t is None else describe(t) for t in given)
        signatures = "; ".join(dict.fromkeys(o.signature for o in overloads))
        why = "cannot be resolved due to ambiguous method" if found else "does not accept"
        shown = name if name in _CAPITALS else name.lower()
        cast = " Use CAST." if found else ""
        raise NoOverloadError(
            f"Function '{shown}' {why} parameters ({types}).{cast} "
            f"Valid alternatives are: {signatures}"
        )
    return found[0]


def _ambiguous(found: Sequence[object], given: Sequence[SqlType | None]) -> bool:
    """Whether several fit; whole numbers beside DECIMALs may as well become DOUBLEs."""
    bases = {t.base for t in given if t is not None}
    whole = Base.INTEGER in bases or Base.BIGINT in bases
    return len(found) > 1 or (whole and Base.DECIMAL in bases and Base.DOUBLE not in bases)


# Their signatures are alike but for the type: what more than one of them takes is ambiguous.
_ALIKE = ("GREATEST", "LEAST")
# Names that ksqlDB writes in capital letters.
_CAPITALS = (
    "ARRAY_CONTAINS", "ARRAY_JOIN", "ARRAY_LENGTH", "AS_MAP", "AS_VALUE", "COALESCE", "ENTRIES",
    "GENERATE_SERIES", "IFNULL", "IS_JSON_STRING", "JSON_ARRAY_CONTAINS", "JSON_ARRAY_LENGTH",
    "JSON_CONCAT", "JSON_ITEMS", "JSON_KEYS", "JSON_RECORDS", "NULLIF", "TO_JSON_STRING", "UUID",
)  # fmt: skip


def _exact(
    overload: Overload, bound: dict[str, SqlType | None], given: Sequence[SqlType | None]
) -> bool:
    wanted = (overload.param(i).type(bound) for i in range(len(given)))
    return all(w is None or g is None or w == g for w, g in zip(wanted, given, strict=True))


def render(overload: Overload, call: Call) -> str | None:
    """The call's text, or None when the engine cannot do it."""
    rendering = overload.duckdb if call.engine is DUCKDB else overload.spark
    text = fill(rendering, call) if isinstance(rendering, str) else rendering and rendering(call)
    inside = text is not None and " -> " in text and any("hf_" in a.sql for a in call.args)
    # Spark calls no Python function inside a lambda.
    return _by_duckdb(overload, call) if inside and call.engine is SPARK else text


def _by_duckdb(overload: Overload, call: Call) -> str | None:
    """A call that DuckDB evaluates for Spark."""
    args = tuple(Typed(a.type, f"a{i}", constant=a.constant) for i, a in enumerate(call.args))
    text = render(overload, Call(DUCKDB, args, call.result, call.name))
    return None if text is None else in_duckdb(text, call.result, call.args, call.notes)


def in_duckdb(text: str, result: SqlType, args: Sequence[Typed], notes: Notes) -> str:
    """Spark SQL for DuckDB SQL over `args`, which are called a0, a1 ... in it."""
    sql = Typed(STRING, SPARK.string(f"TRY({text})"))
    return _python(DUCK, Call(SPARK, (sql, *args), result, notes=notes))


def py(name: str) -> Callable[[Call], str]:
    """The rendering of a Python function of `holdfast.tasks.functions`, the same in any engine."""

    def rendering(call: Call) -> str:
        return _python(name, call)

    return rendering


def whole(template: str) -> Callable[[Call], str]:
    """DuckDB's rendering of a DOUBLE that becomes a BIGINT as in Java: NaN is 0."""

    def rendering(call: Call) -> str:
        double = Typed(DOUBLE, fill(template, call))
        return py("WHOLE")(replace(call, args=(double,), result=BIGINT))

    return rendering


def is_whole(call: Call) -> bool:
    """Whether the result is an INTEGER or a BIGINT."""
    return call.result in (INTEGER, BIGINT)


def too_large(call: Call, size: str, most: int) -> str:
    """The call that DuckDB makes instead of one over the limit: NULL, and a query is told.

    It looks at the size again: DuckDB evaluates what is constant before it knows that it is needed.
    """
    sizes = (Typed(BIGINT, f"CAST({n} AS BIGINT)") for n in (size, most))
    args = (Typed(STRING, DUCKDB.string(call.name)), *sizes)
    return _python("TOO_LARGE", replace(call, engine=DUCKDB, args=args))


def anew(name: str) -> Callable[[Call], str]:
    """A Python function without arguments whose result is another for each of DuckDB's rows.

    DuckDB's own such functions may not stand in TRY; of these it only sees that they take the row.
    """

    def rendering(call: Call) -> str:
        row = Typed(STRING, "CAST(hash(batch) AS VARCHAR)")
        return _python(name, replace(call, args=(row,)))

    return rendering


def _python(name: str, call: Call) -> str:
    types = [a.type or STRING for a in call.args]
    nothing = call.engine.type_name(STRING)
    texts = (a.sql if a.type else f"CAST({a.sql} AS {nothing})" for a in call.args)
    function = sql_name(name, call.result, types)
    call.notes.functions[function] = None
    return f"{function}({', '.join(texts)})"


def either(first: Rendering, second: Callable[[Call], str]) -> Callable[[Call], str]:
    """The first rendering that can be made."""

    def rendering(call: Call) -> str:
        made = fill(first, call) if isinstance(first, str) else first and first(call)
        return second(call) if made is None else made

    return rendering


def fill(template: str, call: Call) -> str:
    """A template with the call's arguments in its places."""
    texts = [a.sql for a in call.args]

    def text(found: re.Match[str]) -> str:
        word = found.group(1)
        if word == "r":
            return call.engine.type_name(call.result)
        if word.endswith("*"):
            return ", ".join(texts[int(word[:-1] or 0) :])
        return texts[int(word)]

    return _PLACEHOLDER.sub(text, template)
