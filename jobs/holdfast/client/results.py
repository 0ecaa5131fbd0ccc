"""Results of queries: rows by name or place, and the positions of the stores that answered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Partition", "Result", "Row"]


class Row(Mapping[str, Any]):
    """One row, by column name; `in_order`: its values in the order of the columns.

    `gone`: the row has left the result of a push query; only its key is set.
    """

    __slots__ = ("_names", "gone", "in_order")

    def __init__(
        self, names: Mapping[str, int], values: tuple[Any, ...], *, gone: bool = False
    ) -> None:
        self._names = names
        self.in_order = values
        self.gone = gone

    def __getitem__(self, name: str) -> Any:
        return self.in_order[self._names[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        values = ", ".join(f"{n}={v!r}" for n, v in self.items())
        return f"Row({values}{', gone' if self.gone else ''})"


@dataclass(frozen=True)
class Partition:
    """The position of a state partition when it answered.

    Attributes:
        position: changelog offset; all transactions before it were applied.
        lag: committed offsets that were not applied yet.
        server: the server that answered.
        checked_ms: when it last heard from Kafka how far the changelog is, by this machine's wall
            clock; 0: unknown.  What came later is not in `lag`.
    """

    position: int
    lag: int
    server: str = ""
    checked_ms: int = 0


@dataclass(frozen=True)
class Result:
    """A pull query's rows, in order.

    Pass the result as `after` to a later query, which then sees at least as much.
    """

    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: Sequence[Row]
    partitions: Mapping[int, Partition] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)
