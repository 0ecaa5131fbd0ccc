"""JSON by orjson where it is installed, else by Python's own: clients then need httpx only."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

__all__ = ["JSONDecodeError", "dumps", "loads"]

JSONDecodeError = json.JSONDecodeError  # orjson's is one as well
loads: Callable[[bytes | str], Any]
dumps: Callable[[object], bytes]


def _dumps(value: object) -> bytes:
    return json.dumps(value).encode()


try:
    import orjson
except ModuleNotFoundError:
    loads, dumps = json.loads, _dumps
else:
    loads, dumps = orjson.loads, orjson.dumps
