"""How often a client may ask: a bucket of requests for each, filled at an even rate."""

from __future__ import annotations

import time

from holdfast.errors import Overloaded

__all__ = ["Rates"]

_CLIENTS = 10_000


class Rates:
    """Owns what each client has left.  `rate_per_s` 0: as much as they like."""

    def __init__(self, rate_per_s: float, burst: int) -> None:
        self._rate = rate_per_s
        self._burst = float(burst)
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, client: str, now_s: float | None = None) -> None:
        """One request of this client.

        Raises:
            Overloaded: it has none left.
        """
        if not self._rate:
            return
        now = time.monotonic() if now_s is None else now_s
        left, at = self._left.get(client, (self._burst, now))
        left = min(self._burst, left + (now - at) * self._rate)
        if left < 1:
            raise Overloaded(
                f"{client} asks more than {self._rate:g} times a second.",
                action=f"wait {(1 - left) / self._rate:.2f} s.",
            )
        if client not in self._left and len(self._left) >= _CLIENTS:
            self._left.pop(next(iter(self._left)))  # the one that came first
        self._left[client] = (left - 1, now)
