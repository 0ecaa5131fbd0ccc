"""The clients' protocol without I/O, shared by both clients: requests, answers, values and retries.

Values in a server's JSON become Python's own types by the columns' SQL types: DATE, TIME and
TIMESTAMP those of `datetime` (times in UTC), BYTES bytes, DECIMAL Decimal.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import httpx

from holdfast import errors
from holdfast.client import json_text
from holdfast.client.results import Partition, Result, Row
from holdfast.errors import HoldfastError, InvalidConfig, PositionLost, Refused, Retriable

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "ARROW",
    "JSON",
    "NDJSON",
    "UNLIMITED",
    "Changes",
    "Options",
    "Tries",
    "arrow_of",
    "body_of",
    "decoder",
    "error_of",
    "options_of",
    "result_of",
]

JSON, NDJSON = "application/json", "application/x-ndjson"
ARROW = "application/vnd.apache.arrow.stream"
# Every push query holds a connection as long as it runs.
UNLIMITED = httpx.Limits(max_connections=None, max_keepalive_connections=32)
_PAUSE_S, _PAUSE_S_MAX = 0.05, 2.0


@dataclass(frozen=True)
class Options:
    """The settings of a client.

    Attributes:
        servers: addresses, `http(s)://host:port`.
        token: bearer token, if the servers need one.
        timeout_s: limit until a server begins to answer, and between parts of an answer.
        retry_s: how long other servers are tried before a query fails.
    """

    servers: tuple[str, ...]
    token: str = ""
    timeout_s: float = 30.0
    retry_s: float = 30.0

    def headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.token}"} if self.token else {}


def options_of(
    servers: str | Sequence[str], token: str, timeout_s: float, retry_s: float
) -> Options:
    """The settings, with addresses without trailing slashes.

    Raises:
        InvalidConfig: there is no server, or an address is invalid.
    """
    given = [servers] if isinstance(servers, str) else list(servers)
    found = tuple(server.rstrip("/") for server in given)
    if not found or not all(s.startswith(("http://", "https://")) for s in found):
        raise InvalidConfig(
            f"the servers {given!r} are not addresses.", action="give http://host:port."
        )
    return Options(found, token, timeout_s, retry_s)


def body_of(
    sql: str,
    *,
    after: Result | None = None,
    properties: Mapping[str, Any] | None = None,
    resume: str = "",
) -> bytes:
    """The request's body."""
    body: dict[str, Any] = {"sql": sql}
    if after is not None:
        body["positions"] = {str(n): p.position for n, p in after.partitions.items()}
    if properties:
        body["properties"] = dict(properties)
    if resume:
        body["resume"] = resume
    return json_text.dumps(body)


def error_of(status: int, data: bytes) -> HoldfastError:
    """The error in an answer, of the class that the server raised."""
    try:
        body = json_text.loads(data)
    except json_text.JSONDecodeError:
        body = None
    if not isinstance(body, dict):
        body = {"message": data[:200].decode(errors="replace") or "no answer"}
    return _told(body, status)


def _told(body: Mapping[str, Any], status: int) -> HoldfastError:
    kind = getattr(errors, str(body.get("reaction", "")), None)
    if not (isinstance(kind, type) and issubclass(kind, HoldfastError)):
        kind = Retriable if status in (429, 502, 503, 504) or status >= 500 else Refused
    return kind(str(body.get("message", f"the server answered {status}.")))


def _partitions(found: Mapping[str, Any] | None) -> dict[int, Partition]:
    return {
        int(n): Partition(p["position"], p["lag"], p.get("server", ""), _checked_ms(p))
        for n, p in (found or {}).items()
    }


def _checked_ms(partition: Mapping[str, Any]) -> int:
    """The server's clock may differ from this one; one of an older version tells its own only."""
    ago_ms = partition.get("checked_ago_ms")
    if ago_ms is None:
        return int(partition.get("checked_ms", 0))
    return int(time.time() * 1000) - int(ago_ms)


def result_of(data: bytes) -> Result:
    """A pull query's answer.

    Raises:
        HoldfastError: the answer ended with one.
    """
    body = json_text.loads(data)
    if "error" in body:
        raise _told(body["error"], 500)
    columns = tuple(c["name"] for c in body["columns"])
    types = tuple(c["type"] for c in body["columns"])
    if any("DECIMAL" in kind for kind in types):
        body = loads(data, types)
    decode = decoder(types)
    names = {name: index for index, name in enumerate(columns)}
    rows = [Row(names, decode(row)) for row in body["rows"]]
    return Result(columns, types, rows, _partitions(body.get("partitions")))


def arrow_of(data: bytes) -> pa.Table:
    """A pull query's answer in columns; `holdfast` in its schema's metadata has the positions.

    Raises:
        HoldfastError: the answer ended with one.
    """
    try:
        import pyarrow as pa
    except ModuleNotFoundError as missing:
        raise InvalidConfig(
            "Answers as Arrow tables need the package pyarrow, which is not installed.",
            action="pip install pyarrow, or ask for rows",
        ) from missing
    reader = pa.ipc.open_stream(data)
    batches, last = [], b"{}"
    while True:
        try:
            batch, metadata = reader.read_next_batch_with_custom_metadata()
        except StopIteration:
            break
        if metadata is not None:
            last = metadata[b"holdfast"]
        elif batch.num_rows:
            batches.append(batch)
    told = json_text.loads(last)
    if "error" in told:
        raise _told(told["error"], 500)
    schema = reader.schema.with_metadata({b"holdfast": last})
    return pa.Table.from_batches(batches, reader.schema).replace_schema_metadata(schema.metadata)


class Tries:
    """Which server is asked next, and for how long.  One value per query.

    Servers that fail go to the end of the line that the client's queries share.
    """

    def __init__(
        self, line: list[str], retry_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._line = line
        self._clock = clock
        self._retry_s = retry_s
        self._deadline = clock() + retry_s
        self._failed = 0
        self.server = line[0]  # whom to ask

    def went_well(self) -> None:
        """The server answers: what fails later has all the time again."""
        self._failed = 0
        self._deadline = self._clock() + self._retry_s

    def failed(self, error: Exception) -> float:
        """Seconds to wait before the next server is asked.

        Raises:
            HoldfastError: asking again will not help, or the time is over.
        """
        server = self.server
        if self._line[0] == server:  # another query may have seen it first
            self._line[:] = [*self._line[1:], server]
        self.server = self._line[0]
        if isinstance(error, HoldfastError) and not isinstance(error, Retriable):
            raise error
        self._failed += 1
        if self._clock() >= self._deadline:
            if isinstance(error, HoldfastError):
                raise error
            raise Retriable(
                f"no server answered in {self._retry_s:g} s, asked {self._failed} times; the last "
                f"was {server}: {type(error).__name__} {error}".rstrip(),
                action="look whether `holdfast serve` runs there; name more servers.",
            ) from error
        # The others are asked at once; a whole round that failed is followed by a pause.
        rounds = self._failed // len(self._line)
        if self._failed % len(self._line):
            return 0.0
        pause_s: float = min(_PAUSE_S_MAX, _PAUSE_S * 2 ** min(rounds, 10))
        return random.uniform(0.5, 1) * pause_s


@dataclass
class Changes:
    """Makes rows of a push query's lines; keeps the place to go on from.

    Rows are given batch by batch, once the token that resumes after them is known: a connection
    that is lost between loses no row and gives none twice.
    """

    columns: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    token: str = ""
    ended: bool = False
    given: int = 0
    _waiting: list[str] = field(default_factory=list)
    _gone: set[int] = field(default_factory=set)
    _told: int = 0  # how many of those that wait were before the last line about them

    def connected(self) -> None:
        """A connection begins: what the last one left unfinished is forgotten.

        Raises:
            PositionLost: rows were given, but nothing tells where to go on.
        """
        self._taken()
        if self.given and not self.token:
            raise PositionLost(
                f"the connection was lost after {self.given:,} rows, before the server told how to "
                "resume.",
                action="read the table anew.",
            )

    def line(self, data: str) -> Iterator[Row]:
        """Rows that are complete with this line.

        Raises:
            HoldfastError: the line is an error.
        """
        if not data:
            return
        if data.startswith("["):
            self._waiting.append(data)
            return
        told = json_text.loads(data)
        if "error" in told:
            raise _told(told["error"], 500)
        if "columns" in told:
            self.columns = tuple(c["name"] for c in told["columns"])
            self.types = tuple(c["type"] for c in told["columns"])
            self.token = told.get("resume") or self.token  # where the query began
            return
        self._gone.update(self._told + index for index in told.get("gone", ()))
        self._told = len(self._waiting)
        if "resume" in told or "end" in told:
            rows = self._ready()
            yield from rows[:-1]
            self.token = told.get("resume") or self.token
            self.ended = "end" in told
            yield from rows[-1:]

    def check_end(self) -> None:
        """The connection was closed as it should be.

        Raises:
            Retriable: but the query had not ended.
        """
        if not self.ended:
            raise Retriable("the server closed the connection before the query's end.")

    def _ready(self) -> list[Row]:
        decode = decoder(self.types)
        names = {name: index for index, name in enumerate(self.columns)}
        lines, gone = self._taken()
        self.given += len(lines)
        return [
            Row(names, decode(loads(line, self.types)), gone=index in gone)
            for index, line in enumerate(lines)
        ]

    def _taken(self) -> tuple[list[str], set[int]]:
        taken = self._waiting, self._gone
        self._waiting, self._gone, self._told = [], set(), 0
        return taken


Decode = Callable[[Any], Any]

_SCALARS: dict[str, Decode] = {
    "DOUBLE": float,  # also parses "NaN" and "Infinity"
    "BYTES": base64.b64decode,
    "DATE": dt.date.fromisoformat,
    "TIME": dt.time.fromisoformat,
    "TIMESTAMP": lambda text: dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC),
    "DECIMAL": lambda number: number if isinstance(number, Decimal) else Decimal(str(number)),
}


def loads(data: bytes | str, types: Sequence[str]) -> Any:
    """Parse JSON; numbers keep every digit if a column is a DECIMAL."""
    if any("DECIMAL" in kind for kind in types):
        return json.loads(data, parse_float=Decimal)
    return json_text.loads(data)


def decoder(types: Sequence[str]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """The function that converts a row of JSON to a row of Python values."""
    decodes = [_decode(kind) for kind in types]
    if not any(decodes):
        return tuple
    return lambda row: tuple(
        value if decode is None or value is None else decode(value)
        for value, decode in zip(row, decodes, strict=True)
    )


@lru_cache(maxsize=256)
def _decode(kind: str) -> Decode | None:
    """The conversion for an SQL type, such as `MAP<STRING, ARRAY<DATE>>`; None if it needs none."""
    base, _, rest = kind.partition("<")
    inner = rest[:-1]
    if base == "ARRAY":
        return _each(_decode(inner))
    if base == "MAP":
        return _map(_decode(_parts(inner)[1].strip()))
    if base == "STRUCT":
        fields = (part.strip().partition(" ") for part in _parts(inner) if part.strip())
        return _struct({name: _decode(of.strip()) for name, _, of in fields})
    return _SCALARS.get(base.partition("(")[0])


def _parts(text: str) -> list[str]:
    """The parts between commas at the top level."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "<(") - (character in ">)")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def _each(decode: Decode | None) -> Decode | None:
    if decode is None:
        return None
    return lambda values: [None if v is None else decode(v) for v in values]


def _map(decode: Decode | None) -> Decode | None:
    if decode is None:
        return None
    return lambda value: {k: None if v is None else decode(v) for k, v in value.items()}


def _struct(decodes: dict[str, Decode | None]) -> Decode | None:
    if not any(decodes.values()):
        return None

    def decode(value: dict[str, Any]) -> dict[str, Any]:
        found = dict(value)
        for name, of in decodes.items():
            if of is not None and found.get(name) is not None:
                found[name] = of(found[name])
        return found

    return decode
