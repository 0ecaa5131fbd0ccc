"""Serialisation of answers: ksqlDB's three formats, and ours.

A form serialises an answer's head, its batches and its end.  Every chunk is a whole unit
(a line, an event, a message), so a client that reads chunk by chunk never sees a partial unit.
"""

from __future__ import annotations

import time
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
    """The rows of a batch (None: the answer's own rows), ready for orjson."""
    if batch is None:
        return ready_rows(answer.rows or (), answer.columns)
    return rows_of(batch, answer.columns)


def _gone(batch: pa.RecordBatch | None) -> dict[str, Any]:
    """The places of those rows of a push query's batch that have left its result."""
    gone = gone_rows(batch) if batch is not None else []
    return {"gone": gone} if gone else {}


def partitions(states: Mapping[int, PartitionState]) -> dict[str, Any]:
    """Position and lag of each partition that answered, for people and for `positions`.

    `checked_ago_ms` is for clients, whose clocks may differ; without it nothing is known.
    """
    now_ms = int(time.time() * 1000)
    return {
        str(number): {
            "position": state.position,
            "lag": state.lag,
            "restoring": state.restoring,
            "server": state.server,
            "checked_ms": state.checked_ms,
            **({"checked_ago_ms": max(0, now_ms - state.checked_ms)} if state.checked_ms else {}),
        }
        for number, state in states.items()
    }


def described(answer: Answer) -> dict[str, Any]:
    """The description before the rows in our own forms."""
    columns = [{"name": c.name, "type": str(c.type)} for c in answer.columns]
    resume = {"resume": answer.token} if answer.push and answer.token else {}
    return {"query_id": answer.query_id, "columns": columns, **resume}


class Form(Protocol):
    """One way of writing answers.

    `kind` is its media type; with `separate` each chunk must be sent on its own.
    """

    kind: str
    separate: bool

    def head(self, answer: Answer) -> bytes: ...

    def batch(self, answer: Answer, batch: pa.RecordBatch | None) -> Iterable[bytes]:
        """The rows of a batch (None: the answer's own rows), as one or more chunks."""

    def beat(self) -> bytes:
        """A heartbeat; empty if the form has none."""

    def failed(self, body: Mapping[str, Any]) -> bytes:
        """An error after the head: the last chunk."""

    def end(self, answer: Answer) -> bytes: ...


class Chunked:
    """Base of most forms: no heartbeat, and nothing at the end."""

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
    """/query-stream as lines; with `separate` each chunk is one line."""

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
    """Our NDJSON: a descriptive line, a line per row (an array), and lines about those rows.

    Lines that are objects have `columns`, `resume`, `gone`, `end` or `error`; empty lines are
    heartbeats.  `resume` is sent when a push query can resume after all rows so far: within a
    table's contents, after each partition.  `gone` lists the places, since the last such line, of
    rows that have left the result.
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
    an event without an id is part of unfinished contents, see `LinesForm`.
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
    """An Arrow IPC stream.  Its last batch is empty; its metadata's key `holdfast` holds JSON with
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
    """A file that drops the bytes taken from it."""

    closed = False

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> int:
        self._parts.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """Do nothing: there is no buffer."""

    def taken(self) -> bytes:
        found = b"".join(self._parts)
        self._parts.clear()
        return found
