"""Table functions: calls that make rows, as the array of what the rows hold."""

from __future__ import annotations

from sqlglot import exp

from holdfast.sql.expressions.scope import call_name
from holdfast.sql.expressions.translator import Translator
from holdfast.sql.expressions.typed import Typed
from holdfast.sql.functions.signatures import Call, NoOverloadError, choose, fn, py, render
from holdfast.types.statements.expressions import Expression

__all__ = ["TABLE_FUNCTIONS", "is_table_function", "table_array"]

TABLE_FUNCTIONS = {
    overload.name: overload
    for overload in (
        fn("EXPLODE(ARRAY<T>) -> ARRAY<T>", "{0}", "{0}"),
        fn("CUBE_EXPLODE(ARRAY<T>) -> ARRAY<ARRAY<T>>", py("CUBE"), py("CUBE")),
    )
}


def is_table_function(name: str) -> bool:
    """Whether an upper-case name is a table function's."""
    return name in TABLE_FUNCTIONS


def table_array(translator: Translator, node: exp.Anonymous) -> Expression:
    """The array of what the rows of a table function's call hold.

    Raises:
        InvalidStatement: it does not take these arguments.
    """
    made = translator.made(lambda each: _array(each, node))
    assert made is not None
    return made


def _array(translator: Translator, node: exp.Anonymous) -> Typed:
    name = call_name(node) or ""
    overload = TABLE_FUNCTIONS[name]
    args = [translator.translate(a) for a in node.expressions]
    at = node.meta.get("start", 0)
    try:
        _, bound = choose(name, [overload], [a.type for a in args])
    except NoOverloadError as error:
        raise translator.script.invalid(at, str(error)) from None
    result = overload.result_type(bound, [a.type for a in args])
    if result is None or result.element is None:
        raise translator.script.invalid(at, f"the type of {name} over NULL is not known")
    text = render(overload, Call(translator.engine, tuple(args), result, name, translator.notes))
    assert text is not None
    return Typed(result, text)
