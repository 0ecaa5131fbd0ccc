"""How long nothing was committed after a fault."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

__all__ = ["longest_silence"]


def longest_silence(
    samples: Sequence[tuple[float, int]], after: float, before: float | None
) -> float:
    """Seconds of the longest time without a commit that ends after one moment and before another.

    A batch that was all but done when a fault came may still be committed after it; so a recovery
    is not the time to the first commit after the fault but the longest silence.

    Args:
        samples: (seconds, committed so far) in order of time; numbers that fall back (a driver
            that is not yet told) count as no commit.
        after: when the fault struck; a silence that began earlier counts from here.
        before: when another one struck before the job was known to have recovered; None: that did
            not happen.

    Returns:
        0.0 when the job had not recovered by `before`: no commit was seen in between, or the
        longest silence was the one that went on then.
    """
    commits, most = [], None
    for at, committed in samples:
        if most is None or committed > most:
            commits.append(at)
            most = committed
    last = float("inf") if before is None else before
    pairs = itertools.pairwise(commits)
    longest = max((b - max(a, after) for a, b in pairs if after < b <= last), default=0.0)
    if before is None:
        return longest
    going_on = before - max((c for c in commits if after < c <= before), default=after)
    return 0.0 if going_on > longest else longest
