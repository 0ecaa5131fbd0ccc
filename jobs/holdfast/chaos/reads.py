"""Sessions that look up keys of the job's tables all the time, and write down what they are told.

A session asks one list of query servers, each the next one when a server does not answer, and
hands the positions it has seen on with every read, so that no answer may be older.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from holdfast.chaos.answers import READ, WINDOWSTART, readable
from holdfast.chaos.history import HistoryWriter, Kind
from holdfast.chaos.state_rows import StateRows
from holdfast.client import Client, Partition, Result
from holdfast.errors import HoldfastError
from holdfast.types.schema import Base
from holdfast.types.topology import Query, Topology

__all__ = ["reading"]

_PER_SERVER = 2  # sessions
_PAUSE_S = 0.1
_ANSWER_S, _GIVE_UP_S = 3.0, 30.0  # then another server is asked; then the read has failed
_KEYS_MAX, _LEARN_EVERY = 100, 50
_SCAN = {"ksql.query.pull.table.scan.enabled": True}


@contextmanager
def reading(folder: Path, topology: Topology, servers: Sequence[str], seed: int) -> Iterator[None]:
    """Sessions read while the context lasts; without servers there are none.

    Args:
        folder: of the run; each session has a file of its own, `reader-<number>.jsonl`.
        servers: addresses; each is the first one of as many sessions as the others.
    """
    stop = threading.Event()
    sessions = [
        threading.Thread(
            target=_Session(folder, topology, [*servers[at:], *servers[:at]], number, seed).run,
            args=(stop,),
            name=f"reader-{number}",
        )
        for number in range(_PER_SERVER * len(servers))
        for at in [number % len(servers)]
    ]
    for session in sessions:
        session.start()
    try:
        yield
    finally:
        stop.set()
        for session in sessions:
            session.join()


class _Session:
    """Owns the positions it was told, by table and state partition."""

    def __init__(
        self, folder: Path, topology: Topology, servers: Sequence[str], number: int, seed: int
    ) -> None:
        self._folder, self._servers, self._number = folder, servers, number
        self._tables = {name: _Table(*found) for name, found in readable(topology).items()}
        self._chance = random.Random(seed * 1_000 + number)
        self._seen: dict[str, dict[int, Partition]] = {name: {} for name in self._tables}

    def run(self, stop: threading.Event) -> None:
        """Reads one key after the other until it is stopped."""
        with (
            HistoryWriter(self._folder, f"reader-{self._number}") as history,
            Client(self._servers, timeout_s=_ANSWER_S, retry_s=_GIVE_UP_S) as client,
        ):
            while self._tables and not stop.wait(_PAUSE_S):
                table = self._chance.choice(list(self._tables.values()))
                if key := table.choose(client, self._chance):
                    self._read(client, history, table, key)

    def _read(
        self, client: Client, history: HistoryWriter, table: _Table, key: tuple[Any, ...]
    ) -> None:
        seen = self._seen[table.name]
        op = history.invoke(READ, table=table.name, key=key)
        try:
            found = client.query(table.by_key(key), after=Result((), (), (), seen))
        except HoldfastError as error:
            history.outcome(Kind.FAIL, READ, op, reason=error.fact)
            return
        history.outcome(
            Kind.OK,
            READ,
            op,
            rows=[dict(row) for row in found],
            positions={str(p): at.position for p, at in found.partitions.items()},
            servers={str(p): at.server for p, at in found.partitions.items()},
        )
        for partition, at in found.partitions.items():
            # The highest: a server that goes back shall not lower what is asked of the next.
            if partition not in seen or seen[partition].position < at.position:
                seen[partition] = at


class _Table:
    """A table's queries, and the keys that it was seen to have."""

    def __init__(self, query: Query, rows: StateRows) -> None:
        self.name = query.sink.name
        self._keys = query.sink.key_columns
        names = [*(_quoted(c.name) for c in self._keys), *([WINDOWSTART] if rows.windowed else [])]
        self._columns = ", ".join(
            [*names, *(name if at < 0 else _quoted(name) for name, at in rows.columns.items())]
        )
        self._known: list[tuple[Any, ...]] = []
        self._asked = 0

    def choose(self, client: Client, chance: random.Random) -> tuple[Any, ...] | None:
        """One of the keys; None as long as the table has none."""
        if len(self._known) < _KEYS_MAX and self._asked % _LEARN_EVERY == 0:
            self._learn(client)
        self._asked += bool(self._known)
        return chance.choice(self._known) if self._known else None

    def by_key(self, key: Sequence[Any]) -> str:
        """The look-up of one key."""
        where = " AND ".join(
            f"{_quoted(column.name)} = {_literal(value, column.type.base)}"
            for column, value in zip(self._keys, key, strict=True)
        )
        return f"SELECT {self._columns} FROM {_quoted(self.name)} WHERE {where};"

    def _learn(self, client: Client) -> None:
        names = ", ".join(_quoted(column.name) for column in self._keys)
        scan = f"SELECT {names} FROM {_quoted(self.name)} LIMIT {_KEYS_MAX};"
        try:
            found = client.query(scan, properties=_SCAN)
        except HoldfastError:  # not served yet, or nobody is there: it is asked again
            return
        self._known = sorted({row.in_order for row in found})


def _quoted(name: str) -> str:
    return f"`{name}`"


def _literal(value: object, base: Base) -> str:
    if base is Base.STRING:
        return "'" + str(value).replace("'", "''") + "'"
    return str(value).upper() if base is Base.BOOLEAN else str(value)
