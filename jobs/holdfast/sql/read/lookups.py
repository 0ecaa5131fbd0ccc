"""Why ksqlDB would not find the rows of a pull query by their keys, read off its WHERE clause.

It looks at each alternative of the condition (what stands between ORs), comparison by comparison.
Holdfast finds more; these are the words for what it does not find either, or shall not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from sqlglot import exp

from holdfast.sql.parse.script import Script, resolve_identifier
from holdfast.sql.plan.projection import plain_column
from holdfast.sql.plan.relation import WINDOW_BOUNDS
from holdfast.sql.read.asked import Keyed
from holdfast.types.columns.schema import Column

__all__ = ["keyed_of"]

_ALTERNATIVES_MAX = 100
_UNEQUAL = (exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ)
_COMPARED = (exp.EQ, exp.GT, exp.GTE, exp.LT, exp.LTE, *_UNEQUAL)
_TWICE = (
    "A comparison condition on the key column cannot be combined with other comparisons such as "
    "an IN predicate."
)


def keyed_of(script: Script, node: exp.Expr, keys: Sequence[Column]) -> Keyed:
    """ksqlDB's verdict on a condition over a table with these key columns."""
    alternatives = list(islice(_alternatives(node), _ALTERNATIVES_MAX))
    for alternative in alternatives:
        found = _Alternative(script, alternative, keys).obstacle()
        if found:
            return Keyed(obstacle=found)
    wrong = (_wrong_key(atom, keys) for alternative in alternatives for atom in alternative)
    return Keyed(wrong_key=next(filter(None, wrong), ""))


def _alternatives(node: exp.Expr) -> Iterator[list[exp.Expr]]:
    """The comparisons that hold together, for each way in which the condition can hold."""
    if isinstance(node, exp.Paren):
        yield from _alternatives(node.this)
    elif isinstance(node, exp.Or):
        yield from _alternatives(node.this)
        yield from _alternatives(node.expression)
    elif isinstance(node, exp.And):
        for left in _alternatives(node.this):
            for right in _alternatives(node.expression):
                yield [*left, *right]
    elif isinstance(node, exp.Between):
        yield [exp.GTE(this=node.this, expression=node.args["low"]),
               exp.LTE(this=node.this, expression=node.args["high"])]  # fmt: skip
    else:
        yield [node]


class _Alternative:
    """Comparisons that hold together."""

    def __init__(self, script: Script, atoms: Sequence[exp.Expr], keys: Sequence[Column]) -> None:
        self._script = script
        self._atoms = atoms
        self._keys = {column.name: column for column in keys}

    def obstacle(self) -> str:
        """Why no keys can be read off it; empty: they can."""
        seen: list[str] = []
        for atom in self._atoms:
            name = "" if isinstance(atom, exp.Like) else _name(atom)
            found = self._why(atom) or (_TWICE if name in seen else "")
            if found:
                return found
            if name in self._keys:
                seen.append(name)
        return "" if len(seen) == len(self._keys) else self._missing(seen)

    def _missing(self, seen: Sequence[str]) -> str:
        if seen:
            return (
                "Multi-column sources must specify every key in the WHERE clause. "
                f"Specified: [{', '.join(seen)}] Expected: [{', '.join(self._keys)}]."
            )
        texts = " AND ".join(self._script.excerpt(atom) for atom in self._atoms)
        return f"WHERE clause missing key column for disjunct: ({texts})."

    def _why(self, atom: exp.Expr) -> str:
        if isinstance(atom, exp.Like):
            return "" if _name(atom) else "Like condition must be between strings."
        if not isinstance(atom, (exp.In, *_COMPARED)):
            return f"Unsupported expression in WHERE clause: {self._script.excerpt(atom)}."
        if not _name(atom):
            return "A comparison must directly reference a key column."
        if any(not isinstance(o, exp.Literal) and o.find(exp.Column) for o in _others(atom)):
            return "A comparison must be between a key column and a resolvable expression."
        if isinstance(atom, _UNEQUAL) and _name(atom) in self._keys:
            keys = ", ".join(f"{column.quoted} KEY" for column in self._keys.values())
            return f"Bound on key columns '[{keys}]' must currently be '='."
        return ""


def _name(atom: exp.Expr) -> str:
    """The column that is compared, on either side; empty: none is."""
    for side in (atom.this, atom.args.get("expression")):
        column = None if side is None else plain_column(side)
        if column is not None:
            return resolve_identifier(column.this)
    return ""


def _others(atom: exp.Expr) -> list[exp.Expr]:
    """The values that the column is compared with."""
    if isinstance(atom, exp.In):
        return list(atom.expressions)
    return [atom.expression if plain_column(atom.this) is not None else atom.this]


def _wrong_key(atom: exp.Expr, keys: Sequence[Column]) -> str:
    """Why a value is no key that can be looked up, as it could be compared with other columns."""
    column = next((c for c in keys if c.name == _name(atom)), None)
    if column is None or column.name in WINDOW_BOUNDS or not isinstance(atom, exp.In):
        return ""
    for value in _others(atom):
        if isinstance(value, exp.Null):
            return f"Primary key columns can not be NULL: ({column.name} = null)."
        if isinstance(value, exp.Literal) and value.is_string and column.type.numeric:
            return (
                f"'{value.this}' can not be converted to the type of the key column: "
                f"{column.name} {column.type} KEY."
            )
    return ""
