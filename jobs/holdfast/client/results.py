"""What queries give: rows by name or place, and how far the servers were that gave them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Partition", "Result", "Row"]


class Row(Mapping[str, Any]):
    """One row, by column name; `values_` are its values in order."""

    __slots__ = ("_names", "values_")

    def __init__(self, names: Mapping[str, int], values: tuple[Any, ...]) -> None:
        self._names = names
        self.values_ = values

    def __getitem__(self, name: str) -> Any:
        return self.values_[self._names[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"Row({', '.join(f'{n}={v!r}' for n, v in self.items())})"


@dataclass(frozen=True)
class Partition:
    """How far a state partition was when it answered.

    Attributes:
        position: changelog offset up to which everything was in.
        lag: offsets that were committed and not in yet.
    """

    position: int
    lag: int


@dataclass(frozen=True)
class Result:
    """A pull query's rows, in order.

    `partitions` may be given as `after` to a later query, which then sees at least as much.
    """

    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: Sequence[Row]
    partitions: Mapping[int, Partition] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)
