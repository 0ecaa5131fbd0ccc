"""The options of one query."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.errors import InvalidConfig
from holdfast.sql.parse.script import did_you_mean

__all__ = ["TABLE_SCAN", "Options", "options_of"]

TABLE_SCAN = "ksql.query.pull.table.scan.enabled"
_LIMIT = "ksql.query.pull.limit.clause.enabled"
_RANGE_SCAN = "ksql.query.pull.range.scan.enabled"
_OFFSET_LAG = "ksql.query.pull.max.allowed.offset.lag"
_LAG = "max.allowed.offset.lag"
_RESET = "auto.offset.reset"
_STREAMS = "ksql.streams."


@dataclass(frozen=True)
class Options:
    """The options that a caller sets for one query by ksqlDB's properties.

    Attributes:
        table_scan: table scans are allowed.
        range_scan: scans of a key range are allowed.
        limit: a pull query may have LIMIT.
        wide_ranges: keys and ranges are also used where ksqlDB would scan the table: two bounds,
            several ranges, numbers, windows.  False if the caller has switched scans off.
        max_lag: a store's maximum lag in offsets; None: any restored store may answer.
        from_earliest: a push query begins with the table's contents.
    """

    table_scan: bool = False
    range_scan: bool = True
    limit: bool = True
    wide_ranges: bool = True
    max_lag: int | None = None
    from_earliest: bool = False


_PLAIN = Options()


def options_of(properties: Mapping[str, Any]) -> Options:
    """The options in the properties; other properties are ignored, as in ksqlDB.

    Raises:
        InvalidConfig: a value is wrong, or a name looks like a misspelt option.
    """
    if not properties:
        return _PLAIN
    given = {str(k).removeprefix(_STREAMS): v for k, v in properties.items()}
    _refuse_typos(given)
    table_scan = _flag(TABLE_SCAN, given, default=False)
    lag = _whole(_LAG if _LAG in given else _OFFSET_LAG, given)
    return Options(
        table_scan=table_scan,
        wide_ranges=table_scan or TABLE_SCAN not in given,
        range_scan=_flag(_RANGE_SCAN, given, default=True),
        limit=_flag(_LIMIT, given, default=True),
        max_lag=lag,
        from_earliest=_choice(_RESET, given, ("latest", "earliest")) == "earliest",
    )


def _refuse_typos(given: Mapping[str, Any]) -> None:
    known = (TABLE_SCAN, _RANGE_SCAN, _LIMIT, _OFFSET_LAG, _LAG, _RESET)
    for name in given:
        hint = did_you_mean(name, known) if name not in known else ""
        if hint and _alike(name, known):
            raise InvalidConfig(f"unknown property {name}", action=hint)


def _alike(name: str, known: tuple[str, ...]) -> bool:
    """Whether the name differs from a known one only in case or in separators between words."""
    return any(_letters(name) == _letters(k) for k in known)


def _letters(name: str) -> str:
    return "".join(c for c in name.lower() if c.isalpha())


def _flag(name: str, given: Mapping[str, Any], *, default: bool) -> bool:
    text = _choice(name, given, ("true" if default else "false", "true", "false"))
    return text == "true"


def _choice(name: str, given: Mapping[str, Any], allowed: tuple[str, ...]) -> str:
    """The value in lower case; the first of `allowed` by default."""
    text = str(given.get(name, allowed[0])).strip().lower()
    if text not in allowed:
        raise _wrong(name, given[name], " or ".join(dict.fromkeys(allowed)))
    return text


def _whole(name: str, given: Mapping[str, Any]) -> int | None:
    if name not in given:
        return None
    convert: Callable[[Any], int] = int
    try:
        number = convert(str(given[name]).strip())
    except ValueError:
        number = -1
    if number < 0:
        raise _wrong(name, given[name], "a number of offsets, 0 or more")
    return number


def _wrong(name: str, value: Any, wanted: str) -> InvalidConfig:
    return InvalidConfig(f"{name} is {value!r}", action=f"it takes {wanted}")
