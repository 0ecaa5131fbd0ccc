"""Rate limits: a token bucket for each client."""

from __future__ import annotations

import time

from holdfast.errors import Overloaded

__all__ = ["Rates"]

_CLIENTS = 10_000


class Rates:
    """Owns each client's bucket.  `rate_per_s` 0: no limit."""

    def __init__(self, rate_per_s: float, burst: int) -> None:
        self._rate = rate_per_s
        self._burst = float(burst)
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, client: str, now_s: float | None = None) -> None:
        """Take a token for one request of a client.

        Raises:
            Overloaded: the bucket is empty.
        """
        if not self._rate:
            return
        now = time.monotonic() if now_s is None else now_s
        left, at = self._left.get(client, (self._burst, now))
        left = min(self._burst, left + (now - at) * self._rate)
        if left < 1:
            raise Overloaded(
                f"{client} sends more than {self._rate:g} requests a second.",
                action=f"wait {(1 - left) / self._rate:.2f} s.",
            )
        if client not in self._left and len(self._left) >= _CLIENTS:
            self._left.pop(next(iter(self._left)))  # the oldest entry
        self._left[client] = (left - 1, now)
