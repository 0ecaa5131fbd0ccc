"""A stranger's own function and aggregate, which no SQL engine brings by itself."""

from __future__ import annotations

from statistics import median

from holdfast import aggregate, function


@function("INITIALS", args=["STRING"], returns="STRING", deterministic=True)
def initials(name: str) -> str:
    """The first letters of a name's words."""
    return "".join(word[0] for word in name.split())


@aggregate("MEDIAN", args=["DOUBLE"], returns="DOUBLE")
class Median:
    """The median of all values."""

    def init(self) -> list[float]:
        return []

    def update(self, state: list[float], value: float | None) -> list[float]:
        return state if value is None else [*state, value]

    def merge(self, a: list[float], b: list[float]) -> list[float]:
        return a + b

    def finish(self, state: list[float]) -> float | None:
        return median(state) if state else None
