"""Stores in a server that speaks Redis' protocol, and the translation of its errors.

A store is two keys, in one slot of a cluster:

    holdfast:{<application>/<state>/<partition>}:rows   hash: `k` + key -> value, and the stamp
    holdfast:{<application>/<state>/<partition>}:keys   sorted set: `k` + key, in bytewise order

The stamp is a field of the hash, so it is never there without the rows.  A batch is one
transaction (MULTI and EXEC, under WATCH of both), whatever its size: the server does it whole
or not at all, in its memory, in its log and on its replicas.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from redis import exceptions
from redis.backoff import NoBackoff
from redis.connection import Connection, SSLConnection
from redis.retry import Retry

from holdfast.config.secrets import from_file
from holdfast.config.settings import RemoteSettings
from holdfast.errors import HoldfastError, Refused, StoreUnavailable, VolumeFull
from holdfast.state.remote.table import Pairs, Stamp

__all__ = ["RedisLink", "RedisTable", "delete_store", "stores_of", "table"]

_PORT = 6379
_STAMP = b"stamp"  # a field that no row has: theirs begin with `k`
_ROW, _ROW_END = b"k", b"l"
_AT_ONCE = 1_000  # rows of one command; a transaction has many
_WHOLE = 1 << 40
_STORE = re.compile(r"holdfast:\{([^/{}]+)/([^/{}]+)/([0-9]+)\}:rows")
# A server that starts, or a replica that is about to become the primary.
_WAITS = ("LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY", "UNBLOCKED")
_REFUSES = ("NOAUTH", "WRONGPASS", "NOPERM")
_Command = tuple[bytes | str | int, ...]


class RedisLink:
    """Owns a connection to the server, which is made when it is first used.

    Raises:
        InvalidConfig: the file with the password cannot be read.
    """

    def __init__(self, settings: RemoteSettings) -> None:
        parts = urlsplit(settings.uri)
        port = parts.port or _PORT
        self.address = f"{parts.hostname}:{port}"
        seconds = settings.timeout_ms / 1000
        password = None
        if settings.password_file:
            password = from_file("state.remote.password", Path(settings.password_file))
        kind = SSLConnection if parts.scheme == "rediss" else Connection
        self._connected = False
        self._connection: Any = kind(  # its methods have no types
            host=parts.hostname or "localhost",
            port=port,
            db=int(parts.path.strip("/") or 0),
            username=settings.user or None,
            password=password,
            socket_timeout=seconds,
            socket_connect_timeout=seconds,
            protocol=2,
            # Nothing is sent twice: whether a write was done is then unknown.
            retry=Retry(NoBackoff(), 0),
            client_name="holdfast",
            socket_keepalive=True,
        )

    def ask(self, *commands: _Command, watching: bool = False) -> list[Any]:
        """The answers to commands that are sent at once.

        Args:
            watching: the server watches keys for this connection, which must be the same one.

        Raises:
            HoldfastError: the server does not answer, or with an error.
        """
        with self._border():
            if self._connected and not watching and self._is_closed():
                self.close()
            try:
                answers = self._answers(commands)
            except BaseException:
                self.close()  # the answers to later commands are still to come
                raise
            self._connected = True
            return answers

    def _is_closed(self) -> bool:
        """Whether the server has closed the connection, as many do after a while without a use."""
        try:
            return bool(self._connection.can_read())  # what is there now is no answer
        except exceptions.ConnectionError:
            return True

    def _answers(self, commands: Sequence[_Command]) -> list[Any]:
        self._connection.send_packed_command(self._connection.pack_commands(commands))
        answers = [self._connection.read_response() for _ in commands]
        _raise_within(answers[-1])  # of EXEC
        return answers

    def close(self) -> None:
        """Ends the connection; a later command makes another one."""
        self._connected = False
        self._connection.disconnect()

    @contextmanager
    def _border(self) -> Iterator[None]:
        try:
            yield
        except (exceptions.RedisError, OSError) as error:
            raise _translated(error, self.address) from error


def _raise_within(answer: Any) -> None:
    for each in answer if isinstance(answer, list) else ():
        if isinstance(each, Exception):
            raise each


def _translated(error: Exception, address: str) -> HoldfastError:
    text = str(error)
    if isinstance(error, exceptions.OutOfMemoryError) or text.startswith("OOM"):
        return VolumeFull(
            f"The remote store at {address} is full ({text}).",
            cause="it has reached its maxmemory.",
            action="give it more memory; no commit is lost, and the job goes on by itself.",
        )
    refused = isinstance(error, exceptions.AuthenticationError | exceptions.NoPermissionError)
    if refused or text.startswith(_REFUSES):
        return StoreUnavailable(  # a password may just be changing
            f"The remote store at {address} refuses this user ({text}).",
            action="look at state.remote.user, state.remote.password.file and the user's rights; "
            "the job waits, and no commit is lost.",
        )
    waits = isinstance(
        error, OSError | exceptions.ConnectionError | exceptions.TimeoutError
        | exceptions.ReadOnlyError | exceptions.ClusterDownError,
    )  # fmt: skip
    if waits or text.startswith(_WAITS):
        return StoreUnavailable(
            f"The remote store at {address} does not answer ({text}).",
            cause="it is down, being replaced, overloaded, or out of reach.",
            action="see that it comes back; the job waits, and no commit is lost.",
        )
    return Refused(
        f"The remote store at {address} answers with an error: {text}.",
        action="look at the server: it must know HSET, ZRANGEBYLEX, WATCH, MULTI and EXEC, and be "
        "no cluster that answers with MOVED.",
    )


class RedisTable:
    """`RemoteTable` in a Redis server.

    Args:
        name: `<application>/<state>/<partition>`.
        part_rows: rows of a transaction; a test has batches of several.
    """

    part_bytes, row_bytes = _WHOLE, 0

    def __init__(self, link: RedisLink, name: str, part_rows: int = _WHOLE) -> None:
        self.part_rows = part_rows
        self._link = link
        self._rows, self._keys = _keys_of(name)

    def stamp(self) -> Stamp | None:
        stamp: Stamp | None = self._at_once()[0]
        return stamp

    def read(self, keys: Sequence[bytes]) -> tuple[Stamp | None, list[bytes | None]]:
        return self._values([_ROW + key for key in keys])

    def _values(self, fields: Sequence[bytes]) -> tuple[Stamp | None, list[bytes | None]]:
        stamp: Stamp | None = None
        values: list[bytes | None] = []
        # At least once: the caller learns the stamp also without keys.
        for n in range(0, max(1, len(fields)), _AT_ONCE):
            part = fields[n : n + _AT_ONCE]
            (found,) = self._link.ask(("HMGET", self._rows, _STAMP, *part))
            now = Stamp.from_bytes(found[0])
            if n and now != stamp:
                return now, [None] * len(fields)
            stamp = now
            values += found[1:]
        return stamp, values

    def scan(
        self, ranges: Sequence[tuple[bytes, bytes | None]], limit: int | None = None
    ) -> tuple[Stamp | None, list[Pairs]]:
        most = () if limit is None else ("LIMIT", 0, limit)
        stamp, *found = self._at_once(
            *(("ZRANGEBYLEX", self._keys, *_bounds(*each), *most) for each in ranges)
        )
        fields = [field for each in found for field in each]
        if stamp is None or not stamp.whole or not fields:
            return stamp, [[] for _ in ranges]
        later, values = self._values(fields)
        at = iter(values)
        return later, [[(field[1:], next(at) or b"") for field in each] for each in found]

    def count(self, start: bytes, end: bytes) -> tuple[Stamp | None, int]:
        stamp, found = self._at_once(("ZLEXCOUNT", self._keys, *_bounds(start, end)))
        return stamp, found

    def _at_once(self, *commands: _Command) -> list[Any]:
        """The stamp, and the answers of the same moment."""
        *_, answers = self._link.ask(("MULTI",), *self._facts(), *commands, ("EXEC",))
        stamp, rows, keys, *found = answers
        return [_stamp_of(stamp, rows, keys), *found]

    def _facts(self) -> tuple[_Command, ...]:
        """Asks for what `_stamp_of` takes."""
        return ("HGET", self._rows, _STAMP), ("HLEN", self._rows), ("ZCARD", self._keys)

    def write(self, rows: Mapping[bytes, bytes | None], was: Stamp, to: Stamp) -> bool:
        puts = [(_ROW + key, value) for key, value in rows.items() if value is not None]
        gone = [_ROW + key for key, value in rows.items() if value is None]
        changes: list[_Command] = []
        for part in _parts(puts):
            changes.append(("HSET", self._rows, *chain.from_iterable(part)))
            changes.append(("ZADD", self._keys, *(each for key, _ in part for each in (0, key))))
        for names in _parts(gone):
            changes += [("HDEL", self._rows, *names), ("ZREM", self._keys, *names)]
        return self._changed(was, to, changes)

    def clear(self, was: Stamp | None, to: Stamp) -> bool:
        return self._changed(was, to, [("UNLINK", self._rows, self._keys)])

    def _changed(self, was: Stamp | None, to: Stamp, changes: Sequence[_Command]) -> bool:
        _, *facts = self._link.ask(("WATCH", self._rows, self._keys), *self._facts())
        if _stamp_of(*facts) != was:
            self._link.ask(("UNWATCH",))
            return False
        stamped = ("HSET", self._rows, _STAMP, to.to_bytes())
        done = self._link.ask(("MULTI",), *changes, stamped, ("EXEC",), watching=True)
        return done[-1] is not None

    def bytes(self) -> int:
        found = self._link.ask(*(("MEMORY", "USAGE", key) for key in (self._rows, self._keys)))
        return sum(each or 0 for each in found)

    def close(self) -> None:
        self._link.close()


def table(settings: RemoteSettings, name: str) -> RedisTable:
    """The rows of one store, over a connection of their own."""
    return RedisTable(RedisLink(settings), name)


def stores_of(settings: RemoteSettings, application_id: str) -> list[tuple[str, str, int]]:
    """(application id, state name, state partition) of every store of an application, sorted."""
    pattern, at, found = f"holdfast:{{{application_id}/*}}:rows", b"0", set[str]()
    with closing(RedisLink(settings)) as link:
        while True:
            ((at, keys),) = link.ask(("SCAN", at, "MATCH", pattern, "COUNT", _AT_ONCE))
            found.update(key.decode() for key in keys)
            if at == b"0":
                break
    names = (_STORE.fullmatch(key) for key in found)
    return sorted((name[1], name[2], int(name[3])) for name in names if name)


def delete_store(settings: RemoteSettings, name: str) -> None:
    """Removes a store, whoever has it open: it is then restored."""
    with closing(RedisLink(settings)) as link:
        link.ask(("UNLINK", *_keys_of(name)))


def _stamp_of(stamp: bytes | None, rows: int, keys: int) -> Stamp | None:
    """A server that makes room removes one key of a store and leaves the other."""
    found = Stamp.from_bytes(stamp)
    return replace(found, whole=False) if found is not None and rows != keys + 1 else found


def _keys_of(name: str) -> tuple[str, str]:
    return f"holdfast:{{{name}}}:rows", f"holdfast:{{{name}}}:keys"


def _bounds(start: bytes, end: bytes | None) -> tuple[bytes, bytes]:
    last = _ROW_END if end is None else _ROW + end
    return b"[" + _ROW + start, b"(" + last


def _parts(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    return (items[n : n + _AT_ONCE] for n in range(0, len(items), _AT_ONCE))
