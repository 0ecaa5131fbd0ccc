"""Which columns of a projection are the key of its rows, and what a key may be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from holdfast.errors import InvalidStatement
from holdfast.sql.expressions.typed import describe
from holdfast.sql.parse.script import Script
from holdfast.sql.plan.projection import Item
from holdfast.types.columns.schema import Base, SqlType

__all__ = ["Wanted", "check_key_type", "missing_key", "refuse_repeated", "split"]


@dataclass(frozen=True)
class Wanted:
    """One key column: how the user may write it, and which items of the SELECT are it."""

    written: str
    matches: Callable[[Item], bool]


def split(
    script: Script, items: Sequence[Item], wanted: Sequence[Wanted]
) -> tuple[list[Item | None], list[Item]]:
    """The item of each key column (None: it is not selected), and the items of the value.

    Raises:
        InvalidStatement: a key column is selected twice, or nothing is left for the value.
    """
    keys: list[Item | None] = []
    used: list[Item] = []
    for key in wanted:
        found = [i for i in items if i not in used and key.matches(i)]
        if len(found) > 1:
            refuse_repeated(script, key.written, found)
        keys.append(found[0] if found else None)
        used += found
    return keys, [i for i in items if i not in used]


def refuse_repeated(script: Script, written: str, found: Sequence[Item]) -> None:
    """Refuse a key column that several items of the SELECT are."""
    names = " and ".join(sorted(i.name for i in found))
    raise script.invalid(
        found[1].at,
        f"The projection contains a key column (`{written}`) more than once, aliased as: {names}. "
        "Each key column must only be in the projection once.",
        action="AS_VALUE(column) copies a key column into the value",
    )


def missing_key(
    script: Script,
    at: int,
    sink: str,
    what: str,
    written: Sequence[str],
    *,
    every: bool = True,
    synthetic: bool = False,
) -> InvalidStatement:
    """The error of a projection without its key: all of `written`, or one of them.

    `synthetic`: the key is none of the sources' columns.
    """
    word, all_of = (" and ", "s") if every else (" or ", "")
    listed = written[0] if len(written) == 1 else _listed(written, word)
    plural = "s" if len(written) > 1 else ""
    example = ", ".join(written) if every else written[0]
    see, more = ("See https://cnfl.io/2LV7ouS.", _synthetic(listed)) if synthetic else ("", "")
    return script.invalid(
        at,
        f"Key{all_of if plural else ''} missing from projection (ie, SELECT). {see}\n"
        f"The query used to build `{sink}` must include the {what}{plural} {listed} in its "
        f"projection (eg, SELECT {example}...).{more}",
        action="add it to the SELECT; PARTITION BY chooses another key, PARTITION BY NULL none",
    )


def _synthetic(name: str) -> str:
    return (
        f"\n{name} was added as a synthetic key column because the join criteria did not match "
        "any source column. This expression must be included in the projection and may be aliased."
    )


def _listed(written: Sequence[str], word: str) -> str:
    return ", ".join(written[:-1]) + word + written[-1]


def check_key_type(script: Script, at: int, name: str, sql_type: SqlType) -> None:
    """Refuse a key that is or holds a MAP: equal maps may be serialized differently."""
    if _has_map(sql_type):
        raise script.invalid(
            at,
            "Map keys, including types that contain maps, are not supported as they may lead to "
            f"unexpected behavior due to inconsistent serialization. Key column name: `{name}`. "
            f"Column type: {describe(sql_type)}. "
            "See https://github.com/confluentinc/ksql/issues/6621 for more.",
        )


def _has_map(sql_type: SqlType) -> bool:
    if sql_type.base is Base.MAP:
        return True
    inner = [f.type for f in sql_type.fields]
    inner += [sql_type.element] if sql_type.element is not None else []
    return any(_has_map(t) for t in inner)
