"""Sketches of Apache DataSketches: summaries of values in bounded bytes that can be merged.

The library is loaded by the first call that makes or reads a sketch.  All three are without random
choices: the same values in the same order give the same bytes (ADR 54).
"""

from __future__ import annotations

import struct
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from holdfast.errors import StoreCorrupted

if TYPE_CHECKING:
    import datasketches as library

__all__ = ["CountSketch", "QuantileSketch", "Quantiles", "Sketch", "TopSketch"]

S = TypeVar("S")


class Sketch(Generic[S]):
    """How to make, merge and store one kind of sketch; holds no data."""

    @abstractmethod
    def empty(self) -> S: ...

    @abstractmethod
    def add(self, sketch: S, values: Sequence[Any]) -> None:
        """Adds values, none of them null."""

    @abstractmethod
    def join(self, older: S, newer: S) -> S:
        """Both in one; either argument may be changed."""

    @abstractmethod
    def write(self, sketch: S) -> bytes: ...

    @abstractmethod
    def parse(self, stored: bytes) -> S:
        """Raises ValueError or IndexError where these are not the bytes of such a sketch."""

    def read(self, stored: bytes) -> S:
        """A stored sketch.

        Raises:
            StoreCorrupted: these are not the bytes of such a sketch.
        """
        try:
            return self.parse(stored)
        except (ValueError, IndexError, RuntimeError, struct.error) as error:
            raise StoreCorrupted(
                f"A stored sketch of {len(stored)} bytes cannot be read: {error}.",
                cause="the store or its changelog is damaged, or was written by another version",
                action="start the job under a new application.id, or use the version that wrote it",
            ) from error

    def merged(self, stored: Sequence[bytes], values: Sequence[Any] = ()) -> bytes:
        """The bytes of one sketch of all sketches, the oldest first, and of the values."""
        if len(stored) == 1 and not values:
            return stored[0]
        sketch = reduce(self.join, map(self.read, stored)) if stored else self.empty()
        if values:
            self.add(sketch, values)
        return self.write(sketch)


class CountSketch(Sketch["library.hll_sketch"]):
    """How many distinct values there are: HyperLogLog with 4,096 registers of 4 bits.

    Up to about 400 values it keeps their hashes, and is all but exact.  Beyond, the relative
    standard error is 1.63 %, and it has about 2.1 kB.  Values are integers and texts.
    """

    _LG_K = 12
    _FLAGS, _MODE = 5, 7  # bytes of the stored form
    _OUT_OF_ORDER, _REGISTERS = 0x10, 2

    def empty(self) -> library.hll_sketch:
        import datasketches as library

        return library.hll_sketch(self._LG_K, library.HLL_4)

    def add(self, sketch: library.hll_sketch, values: Sequence[Any]) -> None:
        for value in dict.fromkeys(values):
            sketch.update(value)

    def join(self, older: library.hll_sketch, newer: library.hll_sketch) -> library.hll_sketch:
        import datasketches as library

        union = library.hll_union(self._LG_K)
        union.update(older)
        union.update(newer)
        return union.get_result(library.HLL_4)

    def write(self, sketch: library.hll_sketch) -> bytes:
        """The library's bytes, marked as merged, whether they are or not.

        So the estimate comes from the registers alone, which are those of the set of values.  The
        library's estimate of a sketch that was never merged depends on the order of values, too,
        and how often a key's sketch is merged depends on where batches are cut.
        """
        stored = bytearray(sketch.serialize_compact())
        if stored[self._MODE] & 3 == self._REGISTERS:
            stored[self._FLAGS] |= self._OUT_OF_ORDER
        return bytes(stored)

    def parse(self, stored: bytes) -> library.hll_sketch:
        import datasketches as library

        sketch = library.hll_sketch.deserialize(stored)
        if sketch.lg_config_k != self._LG_K:
            raise ValueError(f"it has 2^{sketch.lg_config_k} registers, not 2^{self._LG_K}")
        return sketch

    def count(self, stored: bytes) -> int:
        """The estimate.

        Raises:
            StoreCorrupted: these are not the bytes of such a sketch.
        """
        estimate: float = self.read(stored).get_estimate()
        return round(estimate)


class Quantiles:
    """A t-digest of finite doubles, and how many others there are beside it."""

    def __init__(self, digest: library.tdigest_double, others: tuple[int, int, int]) -> None:
        self.digest = digest
        self.below, self.above, self.nans = others  # -Infinity, Infinity, NaN

    def at(self, share: float) -> float:
        """The value below which this share of the values is; NaN is above Infinity."""
        finite = self.digest.get_total_weight()
        place = share * (self.below + finite + self.above + self.nans)
        if place < self.below or not (finite or self.above or self.nans):
            return -np.inf
        if finite and place <= self.below + finite:
            return float(self.digest.get_quantile((place - self.below) / finite))
        return np.inf if place <= self.below + finite + self.above and self.above else np.nan


class QuantileSketch(Sketch[Quantiles]):
    """Where shares of the values lie: a t-digest with k = 300.

    Up to about 100 values it is exact.  Beyond, the share that it answers for is off by less than 2
    percent points in the middle and far less at the ends; it has at most 9.7 kB, about 6.4 kB
    as a rule.  Finite values beyond 1e290 count as that much: the digest multiplies them.
    """

    _K = 300
    _MOST = 1e290
    _OTHERS = struct.Struct("<QQQ")

    def empty(self) -> Quantiles:
        import datasketches as library

        return Quantiles(library.tdigest_double(self._K), (0, 0, 0))

    def add(self, sketch: Quantiles, values: Sequence[Any]) -> None:
        numbers = np.asarray(values, np.float64)
        finite = np.isfinite(numbers)
        if not finite.all():
            sketch.below += int(np.count_nonzero(numbers == -np.inf))
            sketch.above += int(np.count_nonzero(numbers == np.inf))
            sketch.nans += int(np.count_nonzero(np.isnan(numbers)))
            numbers = numbers[finite]
        sketch.digest.update(np.clip(numbers, -self._MOST, self._MOST))

    def join(self, older: Quantiles, newer: Quantiles) -> Quantiles:
        older.digest.merge(newer.digest)
        older.below += newer.below
        older.above += newer.above
        older.nans += newer.nans
        return older

    def write(self, sketch: Quantiles) -> bytes:
        others = self._OTHERS.pack(sketch.below, sketch.above, sketch.nans)
        return others + bytes(sketch.digest.serialize())

    def parse(self, stored: bytes) -> Quantiles:
        import datasketches as library

        below, above, nans = self._OTHERS.unpack_from(stored)
        digest = library.tdigest_double.deserialize(stored[self._OTHERS.size :])
        if digest.k != self._K:
            raise ValueError(f"its k is {digest.k}, not {self._K}")
        return Quantiles(digest, (below, above, nans))


class TopSketch(Sketch["library.frequent_strings_sketch"]):
    """The most frequent texts: a "frequent items" sketch of at most 768 of them.

    While there are no more than those, it is exact.  Beyond, a count is too high by 0.342 % of all
    values at most, never too low, and no text that makes up more than that is missing.  It has
    16 bytes for each text, and the text itself.
    """

    _LG_MAX = 10

    def empty(self) -> library.frequent_strings_sketch:
        import datasketches as library

        return library.frequent_strings_sketch(self._LG_MAX)

    def add(self, sketch: library.frequent_strings_sketch, values: Sequence[Any]) -> None:
        for value, count in Counter(values).items():
            sketch.update(value, count)

    def join(
        self, older: library.frequent_strings_sketch, newer: library.frequent_strings_sketch
    ) -> library.frequent_strings_sketch:
        older.merge(newer)
        return older

    def write(self, sketch: library.frequent_strings_sketch) -> bytes:
        return bytes(sketch.serialize())

    def parse(self, stored: bytes) -> library.frequent_strings_sketch:
        import datasketches as library

        return library.frequent_strings_sketch.deserialize(stored)

    def top(self, stored: bytes, count: int, order: Callable[[str], Any]) -> list[tuple[str, int]]:
        """The most frequent texts and how often they come; of equally frequent ones by `order`.

        Raises:
            StoreCorrupted: these are not the bytes of such a sketch.
        """
        import datasketches as library

        kind = library.frequent_items_error_type.NO_FALSE_NEGATIVES
        found = [(text, n) for text, n, _, _ in self.read(stored).get_frequent_items(kind)]
        return sorted(found, key=lambda each: (-each[1], order(each[0])))[:count]
