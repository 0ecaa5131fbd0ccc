"""The user's own aggregate of `job.sql`."""

from __future__ import annotations

from holdfast import aggregate


@aggregate("LONGEST", args=["STRING"], returns="STRING")
class Longest:
    """The longest text; of several the first."""

    def init(self) -> str | None:
        return None

    def update(self, state: str | None, text: str | None) -> str | None:
        return self.merge(state, text)

    def merge(self, first: str | None, second: str | None) -> str | None:
        if first is None or second is None:
            return second if first is None else first
        return second if len(second) > len(first) else first

    def finish(self, state: str | None) -> str | None:
        return state
