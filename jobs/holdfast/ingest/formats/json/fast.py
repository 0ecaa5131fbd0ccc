"""Decodes JSON a chunk at a time, in Arrow; refuses chunks that it may not decode exactly.

The records are joined with newlines and parsed as one document.  That is safe only if every
record is exactly one object by the rules of `slow`, so these are checked on the joined
bytes, with searches that cost far less than parsing:

* every record begins with `{` and ends with `}` and none holds a newline; a newline inside a
  string is no JSON, so every boundary lies between two objects, and as many rows as records
  means one object each;
* it is valid UTF-8 and holds no NaN or Infinity, which Arrow would let pass;
* where a DECIMAL is wanted, no number with a negative exponent can have over 38 decimal places:
  Arrow looks up its power of ten beyond the end of its table, so 1e-41 becomes 0 and 1e-99999999
  ends the process;
* no wanted field is spelled in two ways, and no letter of a name is escaped;
* no record can be nested more deeply than the slow decoder allows.

Arrow itself refuses everything else, for instance duplicate fields and numbers out of range.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.json as pj

from holdfast.ingest.formats.text import fit_time
from holdfast.types.columns.schema import BIGINT, INTEGER, Base, Column, SqlType

__all__ = ["DEPTH_MAX", "FastJson", "fast_json", "finished", "is_utf8", "openers", "renamed"]

_SIMPLE_NAME = re.compile(r"[A-Za-z0-9_]+")
# Escaped letters, digits or underscores, which are rare; controls and signs are often escaped.
_ESCAPED_NAME = re.compile(rb"\\u00(3[0-9]|[46][1-9a-fA-F]|[57][0-9aA]|5[fF])")
# Outside of text; a match inside text is possible, and only costs time.
_NO_NUMBER = re.compile(rb"[\[:,]\s*-?(?:NaN|Inf(?:inity)?)\s*[,\]}]")
# The end of a number, or of the text of one, with a negative exponent of two digits or more, or of
# one digit after 30 others; and all of it, which takes longer to look for.
_TINY_END = re.compile(
    rb"[eE](?:-|\\u002[dD])"
    rb"(?:[0-9]{2,}|(?:(?<=[0-9]{30}[eE]-)|(?<=[0-9]{30}[eE]\\u002[dD]))[0-9])"
    rb'"?\s*[,\]}]'
)
_TINY = re.compile(rb'[\[:,]\s*"?(?:[-+.0-9]|\\u002[bBdDeE])+' + _TINY_END.pattern)
# Nested objects and arrays, in any field.  A constant well within the limit of Python's stack:
# whether a record can be decoded must not depend on the caller.
DEPTH_MAX = 200
_CASE = 0x20  # the bit that is set in a lower-case letter, not in an upper-case one
_TOP_ONLY = {Base.TIMESTAMP: BIGINT, Base.DATE: INTEGER, Base.TIME: INTEGER}
_DIRECT = frozenset(
    {Base.BOOLEAN, Base.INTEGER, Base.BIGINT, Base.DOUBLE, Base.DECIMAL, Base.STRING}
)


def fast_json(wanted: Sequence[Column]) -> FastJson | None:
    """The fast decoder for these columns; None if Arrow cannot read them as ksqlDB does."""
    sound = all(c.type.base in _TOP_ONLY or _direct(c.type) for c in wanted)
    simple = all(_SIMPLE_NAME.fullmatch(name) for name in _names(wanted))
    return FastJson(wanted) if sound and simple else None


class FastJson:
    """Decodes payloads of one source into the wanted columns, or not at all."""

    def __init__(self, wanted: Sequence[Column]) -> None:
        self._wanted = tuple(wanted)
        # A name with a lower-case letter was quoted and only matches itself.
        self._folding = sorted({n for n in _names(wanted) if n == n.upper()})
        self._places = {c.name: i for i, c in enumerate(self._wanted)}
        self._decimals = any(_has_decimals(c.type) for c in wanted)

    def decode(self, payloads: Sequence[bytes]) -> tuple[pa.Array, ...] | None:
        """The wanted columns, or None if the slow decoder must decode these payloads."""
        joined = b"\n".join(payloads)
        if not _plain(joined, payloads) or (self._decimals and _is_tiny(joined)):
            return None
        try:
            return self._spelled_and_parsed(joined, len(payloads))
        except (pa.ArrowInvalid, ValueError):
            return None

    def _spelled_and_parsed(self, joined: bytes, rows: int) -> tuple[pa.Array, ...] | None:
        folded = _folded(joined)
        spelled: dict[str, str] = {}
        assumed = []
        for name in self._folding:
            first, count = _first_spelling(name, joined, folded)
            if first.upper() != name:
                return None
            if name in self._places and count == rows:
                assumed.append(name)
            elif count:
                only = _only_spelling(first, count, joined)
                if only is None:
                    return None
                first = only
            spelled[name] = first
        columns = self._parse(joined, spelled, rows)
        if columns is None or all(columns[self._places[n]].null_count == 0 for n in assumed):
            # It occurs once per record, and each record has this spelling: there is no other.
            return columns
        exact = {n: _only_spelling(spelled[n], rows, joined) for n in assumed}
        return columns if all(exact[n] == spelled[n] for n in assumed) else None

    def _parse(
        self, joined: bytes, spelled: dict[str, str], rows: int
    ) -> tuple[pa.Array, ...] | None:
        fields = [_field(c, spelled, _TOP_ONLY.get(c.type.base)) for c in self._wanted]
        if not _distinct(fields):
            return None
        table = pj.read_json(
            pa.BufferReader(joined),
            read_options=pj.ReadOptions(use_threads=False, block_size=len(joined) + 1),
            parse_options=pj.ParseOptions(
                explicit_schema=pa.schema(fields), unexpected_field_behavior="ignore"
            ),
        )
        if table.num_rows != rows:
            return None
        columns = [table.column(f.name).combine_chunks() for f in fields]
        return tuple(finished(a, c.type) for a, c in zip(columns, self._wanted, strict=True))


def _names(columns: Sequence[Column]) -> Iterator[str]:
    for column in columns:
        yield column.name
        type_: SqlType | None = column.type
        while type_ is not None:
            yield from _names(type_.fields)
            type_ = type_.element


def _direct(type_: SqlType) -> bool:
    """Whether Arrow reads the type from JSON as `slow` does."""
    if type_.base is Base.ARRAY and type_.element is not None:
        return _direct(type_.element)
    if type_.base is Base.STRUCT:
        return all(_direct(f.type) for f in type_.fields)
    return type_.base in _DIRECT


def _plain(joined: bytes, payloads: Sequence[bytes]) -> bool:
    letters = np.frombuffer(joined, np.uint8)
    newlines = np.flatnonzero(letters == ord("\n"))
    if len(newlines) != len(payloads) - 1:
        return False
    longest = _longest(letters, newlines)
    return (
        longest > 0
        and not ((_has(joined, b"NaN") or _has(joined, b"Inf")) and _NO_NUMBER.search(joined))
        and is_utf8(joined)
        and not (_has(joined, b"\\u00") and _ESCAPED_NAME.search(joined))
        and (longest <= DEPTH_MAX or max(map(openers, payloads)) <= DEPTH_MAX)
    )


def _is_tiny(joined: bytes) -> bool:
    return _TINY_END.search(joined) is not None and _TINY.search(joined) is not None


def _has(joined: bytes, word: bytes) -> bool:
    """Whether the word occurs; looks for its first letter first, which is 100 times faster."""
    return word[:1] in joined and word in joined


def _longest(letters: npt.NDArray[np.uint8], newlines: npt.NDArray[np.int64]) -> int:
    """Bytes of the longest record; 0 unless every record begins with `{` and ends with `}`."""
    starts = np.concatenate([[0], newlines + 1])
    ends = np.append(newlines, len(letters)) - 1
    lengths = ends - starts + 1
    if int(lengths.min()) < len(b"{}"):
        return 0
    objects = (letters[starts] == ord("{")).all() and (letters[ends] == ord("}")).all()
    return int(lengths.max()) if objects else 0


def openers(payload: bytes) -> int:
    """An upper bound of a record's nesting depth."""
    return payload.count(b"{") + payload.count(b"[")


def is_utf8(joined: bytes) -> bool:
    """Whether each of the records, joined by ASCII characters, is valid UTF-8."""
    if joined.isascii():
        return True
    try:
        joined.decode()
    except UnicodeDecodeError:
        return False
    return True


def _folded(joined: bytes) -> bytes:
    """All letters in lower case, seven times as fast as `lower`.

    A few other bytes change, too, so other text may look like a name; but a name always looks like
    a name.
    """
    return (np.frombuffer(joined, np.uint8) | _CASE).tobytes()


def _first_spelling(name: str, joined: bytes, folded: bytes) -> tuple[str, int]:
    """The first spelling of an upper-case name, and how often the name occurs.

    Either may belong to other text that looks like the name in `folded`.
    """
    quoted = _folded(b'"' + name.encode() + b'"')
    at = folded.find(quoted)
    if at < 0:
        return name, 0
    return joined[at + 1 : at + len(quoted) - 1].decode(), folded.count(quoted)


def _only_spelling(first: str, count: int, joined: bytes) -> str | None:
    """The spelling of a name that occurs `count` times; None if it has several."""
    quoted = b'"' + first.encode() + b'"'
    if joined.count(quoted) == count:
        return first
    # Values may look like names; only text before a colon is a name.
    found = set(re.findall(b"(?i:" + quoted + rb")(?=\s*:)", joined))
    if len(found) > 1:
        return None
    return found.pop()[1:-1].decode() if found else first.lower()


def _field(column: Column, spelled: dict[str, str], as_: SqlType | None) -> pa.Field:
    kind = _read_as(as_ or column.type, spelled)
    return pa.field(spelled.get(column.name, column.name), kind)


def _read_as(type_: SqlType, spelled: dict[str, str]) -> pa.DataType:
    """The type's Arrow form with fields named as the records spell them."""
    if type_.base is Base.STRUCT:
        return pa.struct([_field(f, spelled, None) for f in type_.fields])
    if type_.base is Base.ARRAY and type_.element is not None:
        return pa.list_(_read_as(type_.element, spelled))
    return type_.arrow()


def _distinct(fields: Sequence[pa.Field]) -> bool:
    """Whether no two columns, at any depth, match the same field of a record."""
    names = {f.name for f in fields}
    return len(names) == len(fields) and all(_distinct(_parts(f.type)) for f in fields)


def _parts(arrow: pa.DataType) -> list[pa.Field]:
    return [arrow.field(i) for i in range(arrow.num_fields)]


def finished(array: pa.Array, type_: SqlType) -> pa.Array:
    """The array in the type's own Arrow form; raises `ValueError` if a value does not fit."""
    if _has_decimals(type_):
        # Arrow compares the written digits with the precision before it pads the scale.
        array.validate(full=True)
    if type_.base is Base.TIMESTAMP:
        return array.cast(pa.timestamp("ms")).cast(pa.timestamp("us")).cast(type_.arrow())
    if type_.base is Base.DATE:
        return array.cast(pa.date32())
    if type_.base is Base.TIME:
        for bound in pa.compute.min_max(array).values():
            fit_time(bound.as_py() or 0)
        return array
    return renamed(array, type_)


def _has_decimals(type_: SqlType) -> bool:
    if type_.base is Base.DECIMAL:
        return True
    inner = [f.type for f in type_.fields]
    return any(map(_has_decimals, [type_.element, *inner] if type_.element else inner))


def renamed(array: pa.Array, type_: SqlType) -> pa.Array:
    """The same array with struct fields named as declared."""
    if type_.base is Base.STRUCT:
        parts = [renamed(array.field(i), f.type) for i, f in enumerate(type_.fields)]
        return pa.StructArray.from_arrays(parts, fields=list(type_.arrow()), mask=array.is_null())
    if type_.base is Base.ARRAY and type_.element is not None:
        values = renamed(array.values, type_.element)
        return pa.ListArray.from_arrays(
            array.offsets, values, type=type_.arrow(), mask=array.is_null()
        )
    return array
