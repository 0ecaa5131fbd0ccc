"""Which changelog of a query counts: a rescale leaves earlier generations behind.

A job records it on its control topic, before anything is committed in a new generation.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

__all__ = ["LAYOUT", "generations"]

LAYOUT = b"layout:"
"""Begins the keys of such records; the query's id follows."""


def generations(records: Iterable[tuple[bytes | None, bytes | None]]) -> dict[str, int]:
    """The generation that counts, by query id, from the (key, value) of a control topic's records.

    A query that was never rescaled has none.

    Raises:
        ValueError: a record is not JSON.
    """
    found: dict[str, int] = {}
    for key, value in records:
        if key is not None and value is not None and key.startswith(LAYOUT):
            found[key[len(LAYOUT) :].decode()] = int(json.loads(value).get("generation", 0))
    return found
