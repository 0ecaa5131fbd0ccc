"""Decodes JSON records that only differ in texts and numbers, a chunk at a time in numpy.

The records of a topic mostly come from one program: the same names in the same order with the same
spaces.  So the first record is split into literals and the slots between them, and another record
has the same shape if

* it has as many quotes as the first, and none is escaped: their places determine where the literals
  have to be;
* the literals are there, byte for byte, from its first byte to its last;
* the slots of texts have no control characters and are valid UTF-8, and the slots of numbers are
  JSON numbers without an exponent.

Such a record is as valid as the first, which the standard library has parsed.  Columns are cut out
of the joined records without a look at each letter.  Any other record, for instance one with a
missing field, is refused; `fast` is tried next.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holdfast.ingest.formats.json.fast import finished, is_utf8
from holdfast.types.columns.schema import BIGINT, DOUBLE, INTEGER, STRING, Base, Column

__all__ = ["ShapedJson", "shaped_json"]

Places: TypeAlias = "npt.NDArray[np.int64]"

_FEW = 16  # records at least, so that splitting the first one pays
_MOST_BYTES = 2**31 - 1  # of one chunk; offsets into it have four bytes
_DEEPEST = 64
_LONGEST = 100  # letters of a number; no DOUBLE this short is out of range
_PATIENCE = 6  # after a miss it skips 2 chunks, then 4, at most 2 to the power of this
_TOKEN = re.compile(
    rb' +|(?P<text>"[^"\\]*")(?P<name> *:)?|(?P<number>-?[0-9][0-9.]*)|[{}\[\],]|true|false|null'
)
_READ_AS = {
    Base.STRING: STRING,
    Base.INTEGER: INTEGER,
    Base.BIGINT: BIGINT,
    Base.DOUBLE: DOUBLE,
    Base.TIMESTAMP: BIGINT,
    Base.DATE: INTEGER,
    Base.TIME: INTEGER,
}
_ZERO, _NINE = ord("0"), 9
_NO_SLOT, _OTHER = -1, -2


def shaped_json(wanted: Sequence[Column]) -> ShapedJson | None:
    """The decoder for these columns; None if a slot cannot hold the type of one."""
    return ShapedJson(wanted) if all(c.type.base in _READ_AS for c in wanted) else None


class _Shape:
    """The common shape of records.

    Attributes:
        literals: the bytes around the slots; one more than there are slots.
        numbers: whether each slot holds a number; otherwise it holds a text.
        fields: names of the top-level object, each with its slot; `_NO_SLOT` if it is null,
            `_OTHER` if it is [1] or true.
    """

    def __init__(self) -> None:
        self.literals = [b""]
        self.numbers: list[bool] = []
        self.fields: dict[str, int] = {}
        self._depth = 0
        self._name = ""

    @staticmethod
    def of(record: bytes) -> _Shape | None:
        """The shape of a record; None if it cannot serve as a pattern."""
        try:
            if type(json.loads(record)) is not dict:
                return None
        except (ValueError, RecursionError):
            return None
        shape, at = _Shape(), 0
        while at < len(record):
            token = _TOKEN.match(record, at)
            if token is None or not shape._takes(token):
                return None
            at = token.end()
        # Quotes determine where a literal is; the last of several literals is at the end.
        anchored = shape.literals[:-1] or shape.literals
        return shape if all(b'"' in literal for literal in anchored) else None

    def _takes(self, token: re.Match[bytes]) -> bool:
        """Adds the next token of the record; False if it must not be there."""
        if token["name"]:
            self.literals[-1] += token[0]
            return self._named(token["text"][1:-1].decode())
        if token["text"]:
            self.literals[-1] += b'"'
            self._slot(number=False)
            self.literals[-1] += b'"'
        elif token["number"]:
            self._slot(number=True)
        else:
            self.literals[-1] += token[0]
            self._depth += (token[0] in (b"{", b"[")) - (token[0] in (b"}", b"]"))
            if token[0] == b"null" and self._depth == 1:
                self.fields[self._name] = _NO_SLOT
        return self._depth <= _DEEPEST

    def _named(self, name: str) -> bool:
        self._name = name
        if self._depth > 1:
            return True
        again = name in self.fields  # of repeated names the last counts: not supported here
        self.fields[name] = _OTHER
        return not again

    def _slot(self, *, number: bool) -> None:
        if self._depth == 1:
            self.fields[self._name] = len(self.numbers)
        self.numbers.append(number)
        self.literals.append(b"")


class ShapedJson:
    """Decodes payloads of one source into the wanted columns, or not at all."""

    def __init__(self, wanted: Sequence[Column]) -> None:
        self._wanted = tuple(wanted)
        self._misses = self._passing = 0

    def decode(self, payloads: Sequence[bytes]) -> tuple[pa.Array, ...] | None:
        """The wanted columns, or None if another decoder must decode these payloads."""
        if len(payloads) < _FEW:
            return None
        if self._passing:
            self._passing -= 1
            return None
        try:
            columns = self._columns(payloads)
        except (pa.ArrowInvalid, ValueError):
            columns = None
        self._misses = 0 if columns is not None else min(self._misses + 1, _PATIENCE)
        self._passing = 2**self._misses if self._misses else 0
        return columns

    def _columns(self, payloads: Sequence[bytes]) -> tuple[pa.Array, ...] | None:
        shape = _Shape.of(payloads[0])
        slots = None if shape is None else self._slots(shape)
        if shape is None or slots is None:
            return None
        joined = b"\n".join(payloads)
        bounds = _bounds(shape, joined, len(payloads))
        if bounds is None:
            return None
        cutter = _Cutter(joined, len(payloads))
        texts = {
            slot: cutter.cut(*bounds[slot])
            for slot, number in enumerate(shape.numbers)
            if number or slot in slots
        }
        if not all(_are_numbers(texts[slot]) for slot in texts if shape.numbers[slot]):
            return None
        texts[_NO_SLOT] = pa.nulls(len(payloads), pa.string())
        return tuple(_column(c, texts[s]) for c, s in zip(self._wanted, slots, strict=True))

    def _slots(self, shape: _Shape) -> list[int] | None:
        """The slot of each wanted column; None if one is neither in a slot nor null."""
        folded = {name.upper(): name for name in shape.fields if name.isascii()}
        found = []
        for column in self._wanted:
            name = column.name if column.name in shape.fields else folded.get(column.name)
            slot = _NO_SLOT if name is None else shape.fields[name]
            if slot == _OTHER:
                return None
            if slot != _NO_SLOT and shape.numbers[slot] == (column.type.base is Base.STRING):
                return None
            found.append(slot)
        return found


def _column(column: Column, texts: pa.StringArray) -> pa.Array:
    return finished(texts.cast(_READ_AS[column.type.base].arrow()), column.type)


class _Cutter:
    """Cuts texts out of joined records, from one place to another in each record."""

    def __init__(self, joined: bytes, rows: int) -> None:
        self._buffer = pa.py_buffer(joined)
        self._end = len(joined)
        self._ours = pa.array(np.arange(0, 2 * rows, 2))

    def cut(self, starts: Places, ends: Places) -> pa.StringArray:
        # To Arrow the joined records are one column: wanted text, text in between, and so on.
        offsets = np.empty(2 * len(starts) + 1, np.int32)
        offsets[0:-1:2], offsets[1::2], offsets[-1] = starts, ends, self._end
        whole = pa.StringArray.from_buffers(2 * len(starts), pa.py_buffer(offsets), self._buffer)
        return whole.take(self._ours)


def _bounds(shape: _Shape, joined: bytes, rows: int) -> list[tuple[Places, Places]] | None:
    """Where each slot begins and ends in each record; None unless all have the shape."""
    if len(joined) > _MOST_BYTES or b"\\" in joined or not is_utf8(joined):
        return None
    letters = np.frombuffer(joined, np.uint8)
    breaks = np.flatnonzero(letters < ord(" "))
    if len(breaks) != rows - 1 or (letters[breaks] != ord("\n")).any():
        return None
    quotes = np.flatnonzero(letters == ord('"'))
    if len(quotes) != rows * sum(literal.count(b'"') for literal in shape.literals):
        return None
    starts, ends = np.append(0, breaks + 1), np.append(breaks, len(joined))
    found = []
    after = starts
    for literal, at in _placed(shape.literals, quotes.reshape(rows, -1), ends):
        found.append((after, at))
        if (at < after).any() or not _all_there(literal, at, joined):
            return None
        after = at + len(literal)
    fits = (found[0][0] == found[0][1]).all() and (after == ends).all()
    return found[1:] if fits else None


def _placed(
    literals: Sequence[bytes], quotes: Places, ends: Places
) -> Iterator[tuple[bytes, Places]]:
    """Where each literal has to be, by the next quotes of each record (a row)."""
    passed = 0
    for literal in literals:
        first = literal.find(b'"')
        yield literal, ends - len(literal) if first < 0 else quotes[:, passed] - first
        passed += literal.count(b'"')


def _all_there(literal: bytes, places: Places, joined: bytes) -> bool:
    if places.max() + len(literal) > len(joined):
        return False
    # A view of every place of the joined records as an item of the literal's length.
    view: npt.NDArray[np.void] = np.ndarray(
        len(joined) - len(literal) + 1, np.dtype((np.void, len(literal))), joined, strides=(1,)
    )
    return view[places].tobytes() == literal * len(places)


def _are_numbers(texts: pa.StringArray) -> bool:
    """Whether all are `-?(0|[1-9][0-9]*)(.[0-9]+)?`, and not too long."""
    _, offsets_buffer, letters_buffer = texts.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32)[: len(texts) + 1]
    letters = np.frombuffer(letters_buffer, np.uint8)[: offsets[-1]]
    firsts, ends = offsets[:-1].copy(), offsets[1:]
    lengths = ends - firsts
    if lengths.min() == 0 or lengths.max() > _LONGEST:
        return False
    odd = np.flatnonzero(_digits(letters) > _NINE)
    rows = np.searchsorted(offsets, odd, "right") - 1
    signs = (letters[odd] == ord("-")) & (odd == firsts[rows])
    firsts[rows[signs]] += 1
    points, pointed = odd[~signs], rows[~signs]
    between = (points > firsts[pointed]) & (points < ends[pointed] - 1)
    if not between.all() or (letters[points] != ord(".")).any() or (firsts == ends).any():
        return False
    zero = letters[firsts] == _ZERO
    second = firsts[zero] + 1
    second = second[second < ends[zero]]
    leading = (_digits(letters[second]) <= _NINE).any()
    return not leading and bool((np.diff(pointed) > 0).all())


def _digits(letters: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """The value of each digit; letters below "0" wrap around to far above nine."""
    return letters - np.uint8(_ZERO)
