"""The audit log: one JSON line per query with its client, statement and outcome.

Tokens are never logged.  Literals can be left out, since they may be personal data.
"""

from __future__ import annotations

import asyncio
import logging
import re
import threading
import time
from collections import deque
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from holdfast.errors import Overloaded
from holdfast.serve.http.guard.rates import Rates

__all__ = ["Audit", "without_literals"]

_log = logging.getLogger(__name__)

_LITERAL = re.compile(r"'(?:[^']|'')*'?|(?<![\w`\"])[0-9][\w.]*")
_FLUSH_S = 0.5
_STATEMENT_MAX = 4_000  # characters
# Limits lines for requests without a known token: anybody can flood the server with those.
_REFUSED_PER_S, _REFUSED_AT_ONCE = 1.0, 100
_PATH_MAX = 200  # characters
_LINES_MAX = 100_000  # lines queued; if the disk does not keep up, lines are dropped and counted


def without_literals(statement: str) -> str:
    """The statement with ? for every string and number."""
    return _LITERAL.sub("?", statement)


class Audit:
    """Owns the file; lines are written in batches, at most half a second later.

    Without a path nothing is logged.
    """

    def __init__(self, path: Path | None = None, *, literals: bool = True) -> None:
        self._path = path
        self._literals = literals
        self._lines: deque[bytes] = deque()
        self._writing = threading.Lock()
        self._lost = 0
        self._refused = Rates(_REFUSED_PER_S, _REFUSED_AT_ONCE)
        self._left_out = 0
        self._task: asyncio.Task[None] | None = None

    def note(self, started_s: float, **fields: Any) -> None:
        """Log a query that has ended.  `started_s`: by the monotonic clock."""
        if self._path is None:
            return
        if len(self._lines) >= _LINES_MAX:
            self._lost += 1
            return
        statement = fields.get("statement")
        if statement is not None:
            plain = statement if self._literals else without_literals(statement)
            fields["statement"] = plain[:_STATEMENT_MAX]
        self._add({**fields, "ms": round((time.monotonic() - started_s) * 1000, 3)})
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._later())

    def refused(self, started_s: float, path: str, address: str, error: str) -> None:
        """Log a request without a known token.

        Under a flood some are written, and the next line tells how many were left out.
        """
        try:
            self._refused.take("")
        except Overloaded:
            self._left_out += 1
            return
        left_out, self._left_out = self._left_out, 0
        self.note(
            started_s, who="", ended="failed", error=error, path=path[:_PATH_MAX],
            **{"from": address}, **({"left_out": left_out} if left_out else {}),
        )  # fmt: skip

    def _add(self, fields: dict[str, Any]) -> None:
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._lines.append(orjson.dumps({"at": at, **fields}, default=str) + b"\n")

    async def _later(self) -> None:
        while self._lines:
            await asyncio.sleep(_FLUSH_S)
            await asyncio.to_thread(self._write)

    def close(self) -> None:
        """Write all queued lines now, and wait for those that another thread is writing."""
        if self._task is not None:
            self._task.cancel()
        if self._left_out:
            self._add({"who": "", "ended": "failed", "left_out": self._left_out})
        self._write()

    def _write(self) -> None:
        with self._writing:
            lines = [self._lines.popleft() for _ in range(len(self._lines))]
            if self._path is None or not lines:
                return
            try:
                with self._path.open("ab") as file:
                    file.write(b"".join(lines))
            except OSError as error:
                self._lost += len(lines)
                told = {"error": str(error), "lost": self._lost}
                _log.warning("audit log not written", extra=told)
