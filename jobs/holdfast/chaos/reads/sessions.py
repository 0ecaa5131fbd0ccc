"""Sessions that keep looking up keys of the job's tables and record the answers.

A session has a list of query servers and moves to the next one when a server does not answer.  It
passes the positions it has seen with every read, so that no answer may be older.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from ssl import SSLContext
from typing import Any

from holdfast.chaos.history.events import HistoryWriter, Kind
from holdfast.chaos.reads.answers import READ
from holdfast.chaos.reads.state_rows import ROWTIME, WINDOWSTART
from holdfast.chaos.reads.table_rows import AskedTable, asked_tables
from holdfast.client import Client, Partition, Result
from holdfast.errors import HoldfastError
from holdfast.types.columns.schema import Base
from holdfast.types.statements.topology import Topology

__all__ = ["Access", "reading"]

_PER_SERVER = 2  # sessions
_PAUSE_S = 0.1
_ANSWER_S, _GIVE_UP_S = 3.0, 30.0  # then another server is asked; then the read counts as failed
_KEYS_MAX, _LEARN_EVERY = 100, 50
_ONE_WINDOW = 0.5  # share of the look-ups of a windowed table
_SCAN = {"ksql.query.pull.table.scan.enabled": True}


@dataclass(frozen=True)
class Access:
    """The credentials of sessions towards servers; they are in no file of a run."""

    token: str = field(default="", repr=False)
    verify: SSLContext | bool = True

    def client(self, servers: Sequence[str], retry_s: float) -> Client:
        """A client of these servers; the caller closes it."""
        return Client(
            servers, token=self.token, verify=self.verify, timeout_s=_ANSWER_S, retry_s=retry_s
        )


@contextmanager
def reading(
    folder: Path,
    topology: Topology,
    servers: Sequence[str],
    seed: int,
    access: Access | None = None,
) -> Iterator[None]:
    """Runs sessions inside the block; without servers there are none.

    Args:
        folder: the run's folder; each session writes a file of its own, `reader-<number>.jsonl`.
        servers: addresses; each is the first choice of the same number of sessions.
    """
    access = access or Access()
    stop = threading.Event()
    sessions = [
        threading.Thread(
            target=_Session(folder, topology, number, seed).run,
            args=(access, [*servers[at:], *servers[:at]], stop),
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
    """Owns the positions that a session has seen, by table and state partition."""

    def __init__(self, folder: Path, topology: Topology, number: int, seed: int) -> None:
        self._folder, self._number = folder, number
        self._tables = {n: _Table(table) for n, table in asked_tables(topology).tables.items()}
        self._chance = random.Random(seed * 1_000 + number)
        self._seen: dict[str, dict[int, Partition]] = {name: {} for name in self._tables}

    def run(self, access: Access, servers: Sequence[str], stop: threading.Event) -> None:
        """Reads one key after the other until it is stopped."""
        with (
            HistoryWriter(self._folder, f"reader-{self._number}") as history,
            access.client(servers, _GIVE_UP_S) as client,
        ):
            while self._tables and not stop.wait(_PAUSE_S):
                table = self._chance.choice(list(self._tables.values()))
                if target := table.choose(client, self._chance):
                    self._read(client, history, table, target)

    def _read(self, client: Client, history: HistoryWriter, table: _Table, target: _Target) -> None:
        seen = self._seen[table.name]
        op = history.invoke(READ, table=table.name, key=target.key, start=target.start)
        try:
            found = client.query(table.look_up(target), after=Result((), (), (), seen))
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
            # The highest: a server that goes back must not lower the minimum for the next one.
            if partition not in seen or seen[partition].position < at.position:
                seen[partition] = at


@dataclass(frozen=True, order=True)
class _Target:
    """A key and a window's start; None: all windows, or a table without windows."""

    key: tuple[Any, ...]
    start: int | None = None


class _Table:
    """A table's queries, and the keys and windows seen in it last."""

    def __init__(self, table: AskedTable) -> None:
        self.name = table.source.name
        self._keys = table.keys
        self._windowed = bool(table.rows.bounds)
        names = [*map(_quoted, (c.name for c in self._keys)), *table.rows.bounds]
        others = (name if name == ROWTIME else _quoted(name) for name in table.rows.columns)
        self._columns = ", ".join([*names, *others])
        self._known: list[_Target] = []
        self._asked = 0

    def choose(self, client: Client, chance: random.Random) -> _Target | None:
        """One of the keys, every other time with one window; None while the table is empty."""
        if self._asked % _LEARN_EVERY == 0 and (self._windowed or len(self._known) < _KEYS_MAX):
            self._learn(client)
        self._asked += bool(self._known)
        if not self._known:
            return None
        target = chance.choice(self._known)
        return target if chance.random() < _ONE_WINDOW else _Target(target.key)

    def look_up(self, target: _Target) -> str:
        """The query for one key."""
        equal = [
            f"{_quoted(column.name)} = {_literal(value, column.type.base)}"
            for column, value in zip(self._keys, target.key, strict=True)
        ]
        equal += [] if target.start is None else [f"{WINDOWSTART} = {target.start}"]
        return f"SELECT {self._columns} FROM {_quoted(self.name)} WHERE {' AND '.join(equal)};"

    def _learn(self, client: Client) -> None:
        names = [_quoted(column.name) for column in self._keys]
        names += [WINDOWSTART] if self._windowed else []
        scan = f"SELECT {', '.join(names)} FROM {_quoted(self.name)} LIMIT {_KEYS_MAX};"
        try:
            found = client.query(scan, properties=_SCAN)
        except HoldfastError:  # not served yet, or no server answers: asked again later
            return
        width = len(self._keys)
        rows = (row.in_order for row in found)
        new = {_Target(row[:width], *row[width:]) for row in rows if None not in row}
        self._known = sorted(new) or self._known


def _quoted(name: str) -> str:
    return f"`{name}`"


def _literal(value: object, base: Base) -> str:
    if base is Base.STRING:
        return "'" + str(value).replace("'", "''") + "'"
    return str(value).upper() if base is Base.BOOLEAN else str(value)
