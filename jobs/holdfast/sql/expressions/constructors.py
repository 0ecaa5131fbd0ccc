"""ARRAY[…], MAP(k := v, …) and STRUCT(f := v, …)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from holdfast.sql.expressions.typed import Typed
from holdfast.sql.parse.script import resolve_identifier, start_of
from holdfast.types.columns.schema import STRING, Base, Column, SqlType

if TYPE_CHECKING:
    from holdfast.sql.expressions.translator import Translator

__all__ = ["CONSTRUCTORS", "Constructors"]

CONSTRUCTORS = ("MAP", "STRUCT")
_CAST_NULL = "cast a NULL to the type that is meant"


class Constructors:
    """The constructors of one translator."""

    def __init__(self, translator: Translator) -> None:
        self._translator = translator
        self._script = translator.script

    def array(self, node: exp.Array) -> Typed:
        """ARRAY[item, …]: all items of one type."""
        if not node.expressions:
            raise self._script.invalid(
                start_of(node),
                "Array constructor cannot be empty. Please supply at least one element",
            )
        items, element = self._translator.coercions.common(node.expressions)
        if element is None:
            raise self._all_null(node, "an array", "elements")
        text = self._translator.engine.array([i.sql for i in items])
        return Typed(SqlType(Base.ARRAY, element=element), text)

    def pairs(self, name: str, node: exp.Anonymous) -> Typed:
        """MAP(key := value, …) or STRUCT(name := value, …)."""
        pairs = [a for a in node.expressions if isinstance(a, exp.PropertyEQ)]
        if len(pairs) != len(node.expressions):
            raise self._script.invalid(
                node.meta.get("start", 0), f"{name} is written {name}(key := value, ...)"
            )
        return self._map(node, pairs) if name == "MAP" else self._struct(node, pairs)

    def _map(self, node: exp.Anonymous, pairs: list[exp.PropertyEQ]) -> Typed:
        if not pairs:
            raise self._script.invalid(
                node.meta.get("start", 0),
                "Map constructor cannot be empty. Please supply at least one key value pair",
            )
        common = self._translator.coercions.common
        keys, key = common([p.this for p in pairs])
        values, element = common([p.expression for p in pairs])
        if key is None:
            raise self._all_null(node, "a map", "keys")
        if element is None:
            raise self._all_null(node, "a map", "values")
        engine = self._translator.engine
        texts = [self._present(k) for k in keys]
        text = engine.map(texts, [v.sql for v in values])
        before = engine.before.map(texts, [v.sql for v in values])
        self._translator.notes.changed |= before != text
        text = before if self._translator.released else text
        return Typed(SqlType(Base.MAP, element=element, key=key), text)

    def _present(self, key: Typed) -> str:
        # A NULL key is written as its name, as Java does when it makes JSON of the map.
        certain = key.type != STRING or key.constant not in ((), (None,))
        return key.sql if certain else f"coalesce({key.sql}, 'null')"

    def _struct(self, node: exp.Anonymous, pairs: list[exp.PropertyEQ]) -> Typed:
        names = [resolve_identifier(_identifier(p.this)) for p in pairs]
        if len(set(names)) < len(names):
            raise self._script.invalid(
                node.meta.get("start", 0),
                f"Duplicate field names found in STRUCT: {', '.join(names)}",
            )
        values = [self._translator.translate(p.expression) for p in pairs]
        for pair, value in zip(pairs, values, strict=True):
            if value.type is None:
                raise self._script.invalid(
                    start_of(pair), "a field of STRUCT that is NULL has no type", action=_CAST_NULL
                )
        fields = tuple(Column(n, v.type) for n, v in zip(names, values, strict=True) if v.type)
        text = self._translator.engine.struct(names, [v.sql for v in values])
        return Typed(SqlType(Base.STRUCT, fields=fields), text)

    def _all_null(self, node: exp.Expr, what: str, parts: str) -> Exception:
        return self._script.invalid(
            start_of(node),
            f"Cannot construct {what} with all NULL {parts}",
            action=f"As a workaround, you may cast a NULL value to the desired type: {_CAST_NULL}",
        )


def _identifier(node: exp.Expr) -> exp.Identifier:
    found = node.this if isinstance(node, exp.Column) else node
    return found if isinstance(found, exp.Identifier) else exp.to_identifier(str(node.name))
