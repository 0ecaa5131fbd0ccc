"""How an answer is written: ksqlDB's three forms of it, and ours.

A form makes bytes of an answer's beginning, its batches and its end.  Every chunk is a whole unit
(a line, an event, a message), so a reader that takes chunk by chunk never sees half of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import orjson
import pyarrow as pa

from holdfast.serve.contract import PartitionState
from holdfast.serve.http.values import ready_rows, rows_of
from holdfast.serve.queries import Answer, gone_rows

__all__ = [
    "ARROW",
    "DELIMITED",
    "EVENTS",
    "JSON",
    "KSQL_JSON",
    "NDJSON",
    "ArrowForm",
    "Chunked",
    "DelimitedForm",
    "EventsForm",
    "Form",
    "JsonForm",
    "LinesForm",
    "ObjectForm",
    "RowsForm",
    "described",
    "partitions",
    "ready",
]

JSON = "application/json"
KSQL_JSON = "application/vnd.ksql.v1+json"
DELIMITED = "application/vnd.ksqlapi.delimited.v1"
NDJSON = "application/x-ndjson"
EVENTS = "text/event-stream"
ARROW = "application/vnd.apache.arrow.stream"

_Rows = Sequence[Sequence[Any]]


def ready(answer: Answer, batch: pa.RecordBatch | None) -> _Rows:
    """The rows of a batch, or with None those the answer came with, ready for orjson."""
    if batch is None:
        return ready_rows(answer.rows or (), answer.columns)
    return rows_of(batch, answer.columns)


def _gone(batch: pa.RecordBatch | None) -> dict[str, Any]:
    """Which rows of a push query's batch tell that a row has left its result."""
    gone = gone_rows(batch) if batch is not None else []
    return {"gone": gone} if gone else {}


def partitions(states: Mapping[int, PartitionState]) -> dict[str, Any]:
    """Position and lag of each partition that answered, for people and for `positions`."""
    return {
        str(number): {
            "position": state.position,
            "lag": state.lag,
            "restoring": state.restoring,
            "server": state.server,
        }
        for number, state in states.items()
    }


def described(answer: Answer) -> dict[str, Any]:
    """What stands above the rows in our own forms."""
    columns = [{"name": c.name, "type": str(c.type)} for c in answer.columns]
    resume = {"resume": answer.token} if answer.push and answer.token else {}
    return {"query_id": answer.query_id, "columns": columns, **resume}


class Form(Protocol):
    """One way of writing answers.

    `kind` is its media type; with `separate` no two chunks may travel as one.
    """

    kind: str
    separate: bool

    def head(self, answer: Answer) -> bytes: ...

    def batch(self, answer: Answer, batch: pa.RecordBatch | None) -> Iterable[bytes]:
        """The rows, one chunk or several; of None the rows the answer came with."""

    def beat(self) -> bytes:
        """What shows that the query lives; empty where the form has nothing for it."""

    def failed(self, body: Mapping[str, Any]) -> bytes:
        """An error after the head: the last that is written."""

    def end(self, answer: Answer) -> bytes: ...


class Chunked:
    """What most forms have in common: nothing between batches, nothing at the end."""

    separate = False

    def beat(self) -> bytes:
        return b""

    def end(self, answer: Answer) -> bytes:
        return b""


def _metadata(answer: Answer) -> bytes:
    return orjson.dumps(
        {
            "queryId": answer.query_id,
            "columnNames": [c.name for c in answer.columns],
            "columnTypes": [str(c.type) for c in answer.columns],
        }
    )


class DelimitedForm(Chunked):
    """/query-stream for clients that read line by line; if `separate` a chunk is one line."""

    kind = DELIMITED

    def __init__(self, *, separate: bool) -> None:
        self.separate = separate

    def head(self, answer: Answer) -> bytes:
        return _metadata(answer) + b"\n"

    def batch(self, answer: Answer, batch: pa.RecordBatch | None) -> Iterable[bytes]:
        lines = [orjson.dumps(row) + b"\n" for row in ready(answer, batch)]
        return lines if self.separate else [b"".join(lines)]

    def failed(self, body: Mapping[str, Any]) -> bytes:
        return orjson.dumps(body) + b"\n"


class JsonForm(Chunked):
    """/query-stream as one JSON array: the metadata, then the rows."""

    kind = JSON

    def head(self, answer: Answer) -> bytes:
        return b"[" + _metadata(answer)

    def batch(self, answer: Answer, batch: pa.RecordBatch | None) -> Iterable[bytes]:
        return [b"".join(b",\n" + orjson.dumps(row) for row in ready(answer, batch))]

    def failed(self, body: Mapping[str, Any]) -> bytes:
        return b",\n" + orjson.dumps(body) + b"]"

    def end(self, answer: Answer) -> bytes:
        return b"]"


class RowsForm(Chunked):
    """/query: one JSON array of a header, rows, and a final message."""

    kind = KSQL_JSON

    def head(self, answer: Answer) -> bytes:
        keys = answer.keys
        schema = ", ".join(c.quoted + " KEY" * (c.name in keys) for c in answer.columns)
        header = {"header": {"queryId": answer.query_id, "schema": schema}}
        return b"[" + orjson.dumps(header)

    def batch(self, answer: Answer, batch: pa.RecordBatch | None) -> Iterable[bytes]:
        rows = ready(answer, batch)
        gone = set(gone_rows(batch)) if batch is not None else ()
        ends = (b',"tombstone":true}}' if i in gone else b"}}" for i in range(len(rows)))
        begin = b',\n{"row":{"columns":'
        return [b"".join(begin + orjson.dumps(r) + e for r, e in zip(rows, ends, strict=True))]

    def beat(self) -> bytes:
        return b"\n"

    def failed(self, body: Mapping[str, Any]) -> bytes:
        return b',\n{"errorMessage":' + orjson.dumps(body) + b"}]"

    def end(self, answer: Answer) -> bytes:
        last = answer.final_message
        return b',\n{"finalMessage":' + orjson.dumps(last) + b"}]" if last else b"]"


class ObjectForm(Chunked):
    """Our JSON: one object with `columns`, `rows` and, at the end, `partitions` or `error`."""

    kind = JSON

    def __init__(self) -> None:
        self._separator = b""

    def head(self, answer: Answer) -> bytes:
        return orjson.dumps(described(answer))[:-1] + b',"rows":['

    def batch(self, answer: Answer, batch: pa.RecordBatch | None) -> Iterable[bytes]:
        rows = ready(answer, batch)
        if not rows:
            return []
        separator, self._separator = self._separator, b","
        return [separator + orjson.dumps(rows)[1:-1]]

    def failed(self, body: Mapping[str, Any]) -> bytes:
        return b'],"error":' + orjson.dumps(body) + b"}"

    def end(self, answer: Answer) -> bytes:
        resume = {"resume": answer.token} if answer.token else {}
        rest = orjson.dumps({"partitions": partitions(answer.states), **resume})
        return b"]," + rest[1:]


class LinesForm(Chunked):
    """Our NDJSON: a line that describes, a line per row (an array), and what is known after them.

    Lines that are objects have `columns`, `resume`, `gone`, `end` or `error`; empty lines show that
    the query lives.  `resume` comes when a push query can go on behind all rows so far: within a
    table's contents that is after each partition.  `gone` are the places of those rows since the
    last such line that have left the result.
    """

    kind = NDJSON

    def __init__(self) -> None:
        self._token = ""

    def head(self, answer: Answer) -> bytes:
        self._token = answer.token
        return orjson.dumps(described(answer)) + b"\n"

    def batch(self, answer: Answer, batch: pa.RecordBatch | None) -> Iterable[bytes]:
        lines = [orjson.dumps(row) for row in ready(answer, batch)]
        told: dict[str, Any] = _gone(batch)
        if answer.push and answer.token != self._token:
            self._token = told["resume"] = answer.token
        if told:
            lines.append(orjson.dumps(told))
        return [b"\n".join(lines) + b"\n"] if lines else []

    def beat(self) -> bytes:
        return b"\n"

    def failed(self, body: Mapping[str, Any]) -> bytes:
        return orjson.dumps({"error": body}) + b"\n"

    def end(self, answer: Answer) -> bytes:
        return orjson.dumps({"end": True, "partitions": partitions(answer.states)}) + b"\n"


class EventsForm(Chunked):
    """Our events, `columns`, `rows`, `end` and `error`: objects in Server-Sent Events or messages.

    An event's id is the token that resumes after it, so a browser's EventSource resumes by itself;
    one without is of contents that are not whole yet, see `LinesForm`.
    """

    kind = EVENTS

    def __init__(self, *, messages: bool = False) -> None:
        self._messages = messages
        self._token = ""

    def _event(self, name: str, value: Mapping[str, Any], token: str = "") -> bytes:
        body = orjson.dumps(value)
        if self._messages:
            return body
        place = b"id: " + token.encode() + b"\n" if token else b""
        return b"event: " + name.encode() + b"\n" + place + b"data: " + body + b"\n\n"

    def head(self, answer: Answer) -> bytes:
        self._token = answer.token
        return self._event("columns", described(answer), answer.token)

    def batch(self, answer: Answer, batch: pa.RecordBatch | None) -> Iterable[bytes]:
        rows = ready(answer, batch)
        new = answer.token if answer.token != self._token else ""
        if not rows and not new:
            return []
        self._token = answer.token
        value = {"rows": rows, **({"resume": new} if new else {}), **_gone(batch)}
        return [self._event("rows", value, new)]

    def beat(self) -> bytes:
        return b'{"beat":true}' if self._messages else b": \n\n"

    def failed(self, body: Mapping[str, Any]) -> bytes:
        return self._event("error", {"error": body})

    def end(self, answer: Answer) -> bytes:
        return self._event("end", {"end": True, "partitions": partitions(answer.states)})


class ArrowForm(Chunked):
    """An Arrow IPC stream.  Its last batch is empty; the key `holdfast` of its metadata has JSON:
    the `partitions`, or an `error`.
    """

    kind = ARROW

    def __init__(self) -> None:
        self._sink = _Sink()
        self._writer: pa.ipc.RecordBatchStreamWriter | None = None
        self._schema = pa.schema([])

    def head(self, answer: Answer) -> bytes:
        self._schema = pa.schema([(c.name, c.type.arrow()) for c in answer.columns])
        self._writer = pa.ipc.new_stream(self._sink, self._schema)
        return self._sink.taken()

    def batch(self, answer: Answer, batch: pa.RecordBatch | None) -> Iterable[bytes]:
        if batch is None:
            rows = answer.rows or ()
            values = zip(*rows, strict=True) if rows else ((),) * len(self._schema)
            arrays = [pa.array(v, f.type) for v, f in zip(values, self._schema, strict=True)]
            batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        return [self._written(batch.cast(self._schema), None)]

    def failed(self, body: Mapping[str, Any]) -> bytes:
        return self._last({"error": dict(body)})

    def end(self, answer: Answer) -> bytes:
        return self._last({"partitions": partitions(answer.states)})

    def _last(self, value: Mapping[str, Any]) -> bytes:
        empty = pa.RecordBatch.from_pylist([], schema=self._schema)
        data = self._written(empty, {"holdfast": orjson.dumps(value)})
        assert self._writer is not None
        self._writer.close()
        return data + self._sink.taken()

    def _written(self, batch: pa.RecordBatch, metadata: dict[str, bytes] | None) -> bytes:
        assert self._writer is not None
        self._writer.write_batch(batch, custom_metadata=metadata)
        return self._sink.taken()


class _Sink:
    """A file that forgets what was taken from it."""

    closed = False

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> int:
        self._parts.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """Nothing waits."""

    def taken(self) -> bytes:
        found = b"".join(self._parts)
        self._parts.clear()
        return found
