"""Fuzz targets for records of each format; run as a program, in a process with limits.

    python -m tests.security.record_fuzz JSON

What is tried: whatever bytes a topic holds, decoding gives a row or a reason for each record and
nothing else, a record changes no other one's row, and what was decoded can be written again.
The process may take a gigabyte more than its libraries do, and so many seconds of the processor
for each example: the operating system ends it when it takes more.
"""

from __future__ import annotations

import resource
import struct
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import tests.conftest  # noqa: F401 - registers and loads the profile that the environment names
from holdfast.ingest.dead_letters import cut, whole
from holdfast.ingest.records import BadRecord, RecordDecoder
from holdfast.sql import compile_text
from holdfast.tasks.evaluate.sink_records import SinkRecords
from holdfast.transport.reader import Chunk
from holdfast.types.ingest import IngestOptions
from holdfast.types.statements.topology import OFFSET, TIMESTAMP, Query

__all__ = ["FORMATS"]

_MEMORY = 1 << 30
_CPU_S_EACH = 2
_CPU_S = 120
_Fields = list[tuple[str, bytes]]

_SCALARS = (
    "b BOOLEAN, i INT, n BIGINT, d DOUBLE, c DECIMAL(12, 3), s STRING, y BYTES, "
    "ts TIMESTAMP, da DATE, ti TIME"
)
_NESTED = (
    "a ARRAY<STRING>, m MAP<STRING, INT>, st STRUCT<x BIGINT, t STRING, a ARRAY<DOUBLE>>, "
    "am ARRAY<MAP<STRING, STRING>>"
)
# Of each format: statements that declare sources of it.
FORMATS: dict[str, tuple[str, ...]] = {
    "JSON": (
        f"k STRING KEY, {_SCALARS}, {_NESTED}) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON');",
        (
            "k STRUCT<x INT, y STRING> KEY, n BIGINT) "
            "WITH (KAFKA_TOPIC='t', FORMAT='JSON', TIMESTAMP='n');"
        ),
        (
            "k DECIMAL(6, 2) KEY, a ARRAY<INT>) "
            "WITH (KAFKA_TOPIC='t', FORMAT='JSON', WRAP_SINGLE_VALUE=false);"
        ),
        (
            "k STRING KEY, s STRING) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON', TIMESTAMP='s', "
            "TIMESTAMP_FORMAT='yyyy-MM-dd HH:mm:ss.SSSX');"
        ),
    ),
    "DELIMITED": (
        f"k STRING KEY, {_SCALARS}) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='DELIMITED');",
        (
            "k INT KEY, l DOUBLE KEY, s STRING, n BIGINT) "
            "WITH (KAFKA_TOPIC='t', FORMAT='DELIMITED', VALUE_DELIMITER='TAB', TIMESTAMP='n');"
        ),
    ),
    "KAFKA": tuple(
        f"k {type_} KEY, v {type_}) WITH (KAFKA_TOPIC='t', FORMAT='KAFKA');"
        for type_ in ("STRING", "INT", "BIGINT", "DOUBLE", "BYTES")
    ),
    "NONE": (
        "n BIGINT, s STRING) WITH (KAFKA_TOPIC='t', KEY_FORMAT='NONE', VALUE_FORMAT='JSON');",
    ),
}
_T = TypeVar("_T")


def _often(*values: bytes) -> st.SearchStrategy[bytes]:
    return st.sampled_from(values)


def _mostly(usual: st.SearchStrategy[_T], other: st.SearchStrategy[_T]) -> st.SearchStrategy[_T]:
    """Three of four times the one: `one_of` would count the parts that either is made of."""
    return st.integers(0, 3).flatmap(lambda n: usual if n else other)


_WORDS = _often(
    b"null", b"true", b"false", b"NaN", b"-Infinity", b"nan", b"0", b"-0", b"1", b"-1", b"1.5",
    b"1e400", b"1e-400", b"1E99999999999", b"-1e999999999", b"0x10", b"01", b".5", b"5.", b"+1",
    b"2147483648", b"9223372036854775808", b"-9223372036854775809", b"253402300800000",
    b"86400000", b"9007199254740993.0", b"123456789.1234", b"\xc3\x28", b"\xed\xa0\x80",
    b"\xff\xfe", b"\xef\xbb\xbf", b"\x00", b"\n", b"\r\n", b"\xe2\x80\xa8", b"\x1c", b"\x85",
    b"\t", b",", b"|", b'"', b'""', b"''", b"\\", b'"\\ud800"', b'"\\udc00\\ud800"', b'"\\u0000"',
    b'"\\x"', b"{", b"}", b"[", b"]", b"[]", b"{}", b":", b"2020-01-01 00:00:00.000Z",
    b"0000-00-00 99:99:99.999+99",
    b"AAAA", b"====", "é😀".encode(),
)  # fmt: skip
_long = st.builds(
    lambda word, times, end: word * times + end,
    _often(b"1", b"9", b"a", b" ", b'"', b"\\", b"\\u0041", b"\xf0\x9f\x98\x80", b",", b"\n", b"."),
    st.sampled_from([1, 50, 4_300, 5_000, 100_000]),
    _often(b"", b"e1", b'"', b"\x00"),
)
_deep = st.builds(
    lambda opening, times, inside, closing: opening * times + inside + closing * times,
    _often(b"[", b'{"a":', b'[{"x":', b'{"st":', b'{"a":['),
    st.sampled_from([1, 3, 190, 200, 300, 1_000, 10_000]),
    _often(b"", b"1", b"null", b'"x"', b"1.0", b"["),
    _often(b"", b"]", b"}", b"}]", b"]}"),
)
_raw = st.one_of(_WORDS, _WORDS, st.binary(max_size=20), st.text().map(str.encode), _long, _deep)
_quoted = _raw.map(lambda raw: b'"' + raw.replace(b'"', b"'") + b'"')
_json = st.one_of(_raw, _quoted)
_names = st.sampled_from(
    [*"kbindcsyabmt", "ts", "da", "ti", "st", "am", "N", "S", "x", "X", "t", "", "other", "é",
     "\\u006e", "\\ud800"]
)  # fmt: skip
# Of every column something that it takes, so that most rows are rows.
_TAKEN = st.sampled_from(
    [
        ("b", b"true"), ("i", b"-7"), ("i", b'"7"'), ("n", b"1700000000000"), ("d", b"1e-5"),
        ("d", b'"NaN"'), ("c", b"1234.500"), ("c", b'"-0.001"'), ("s", b'"text"'), ("s", b"1.50"),
        ("s", b'{"a": [1, 2.0]}'), ("y", b'"AAEC"'), ("ts", b"-1"), ("da", b"19000"), ("ti", b"1"),
        ("a", b'["x", null, 1]'), ("m", b'{"p": 1, "p": 2}'), ("st", b'{"X": 1, "a": [0.5]}'),
        ("am", b'[{"a": "b"}, null, {}]'), ("k", b"1"), ("x", b"1"), ("y", b'"eQ=="'),
    ]
)  # fmt: skip
_fields = st.lists(_mostly(_TAKEN, st.tuples(_names, _json)), max_size=4)


def _object(fields: _Fields) -> bytes:
    return b"{" + b",".join(b'"' + n.encode() + b'":' + v for n, v in fields) + b"}"


# The ten columns of the first statement, most of them as they should be.
_delimited = st.tuples(
    *(
        _mostly(_often(good), _often(good, b"", b'"%s"' % good, b"x", b'"'))
        for good in (b"true", b"7", b"-8", b"1e5", b"1.250", b"text", b"AAEC", b"1", b"19000", b"2")
    )
).map(b",".join)
_two = st.tuples(_json, _often(b"5", b"-1", b"")).map(b"\t".join)
_any = st.one_of(_json, st.lists(_json, min_size=8, max_size=12).map(b",".join), st.none())
# A value or a key: of the format, or anything.
_PAYLOADS: dict[str, st.SearchStrategy[bytes | None]] = {
    "JSON": _mostly(_fields.map(_object), _any),
    "DELIMITED": _mostly(_mostly(_delimited, _two), _any),
    "KAFKA": _mostly(
        st.one_of(
            st.integers(-(2**31), 2**31 - 1).map(struct.Struct(">i").pack),
            st.integers(-(2**63), 2**63 - 1).map(struct.Struct(">q").pack),
            st.floats().map(struct.Struct(">d").pack),
            st.binary(max_size=9),
        ),
        _any,
    ),
    "NONE": _mostly(_fields.map(_object), _any),
}
_GOOD_KEYS: dict[str, tuple[bytes, ...]] = {
    "JSON": (b'{"x": 1}', b"1.5", b"null"),
    "DELIMITED": (b"1,2.5",),
    "KAFKA": (b"1234", b"12345678"),
    "NONE": (b"k",),
}
_times = _mostly(
    st.just(1_700_000_000_000), st.sampled_from([0, 1, 2**53, 2**63 - 1, -1, -(2**63)])
)


def _query(declared: str) -> Query:
    text = f"CREATE STREAM s ({declared} CREATE STREAM o AS SELECT * FROM s;"
    return compile_text(text).queries[0]


def _chunk(records: Sequence[tuple[bytes | None, bytes | None, int]]) -> Chunk:
    offsets = list(range(len(records)))
    keys, values, times = ([r[i] for r in records] for i in range(3))
    return Chunk(keys, values, offsets, times, len(records))  # type: ignore[arg-type]


def _read(decoder: RecordDecoder, chunk: Chunk) -> tuple[pa.RecordBatch, list[BadRecord]]:
    """Decodes the chunk; every record becomes a row or has a reason."""
    batch, bad = decoder.decode(chunk, 0)
    batch.validate(full=True)
    good = batch[OFFSET].to_pylist()
    assert sorted([*good, *(b.offset for b in bad)]) == chunk.offsets
    assert all(time >= 0 for time in batch[TIMESTAMP].to_pylist())
    for record in bad:
        at = chunk.offsets.index(record.offset)
        assert (record.key, record.value) == (chunk.keys[at], chunk.values[at])
        letter = whole(record, [("holdfast.reason", record.reason[:500])])
        assert record.reason
        assert letter.size < 4_096 or cut(letter, 4_096).size <= 4_096
    return batch, bad


def _same(one: Any, other: Any) -> bool:
    return repr(one) == repr(other)  # NaN is itself, 1 is not 1.0


def check(query: Query, records: list[tuple[bytes | None, bytes | None, int]]) -> None:
    """Reads records together and one by one, and writes what they hold."""
    source = query.source
    names = tuple(c.name for c in source.columns)
    decoder = RecordDecoder(IngestOptions(source, {}, names))
    batch, _ = _read(decoder, _chunk(records))
    alone = [_read(decoder, _chunk([record]))[0] for record in records]
    rows = {row[OFFSET]: row for row in batch.to_pylist()}
    for at, single in enumerate(alone):
        found = {**single.to_pylist()[0], OFFSET: at} if single.num_rows else None
        assert _same(rows.get(at), found), f"record {at} is another one in company"
    sink, columns = SinkRecords(query.sink), {c.name: batch[c.name] for c in source.columns}
    values = list(sink.values([columns[c.name] for c in query.sink.value_columns]))
    keys = sink.keys([columns[c.name] for c in query.sink.key_columns])
    assert len(values) == batch.num_rows
    assert not query.sink.key_columns or len(keys) == batch.num_rows


def target(name: str) -> Callable[[], None]:
    """The fuzz target of a format."""
    queries = [_query(declared) for declared in FORMATS[name]]
    payloads = _PAYLOADS[name]
    keys = _mostly(_often(*_GOOD_KEYS[name]), payloads)
    records = st.lists(st.tuples(keys, payloads, _times), min_size=1, max_size=4)

    @given(query=st.sampled_from(queries), records=records)
    def run(query: Query, records: list[tuple[bytes | None, bytes | None, int]]) -> None:
        check(query, records)

    return run


def limited(work: Callable[[], _T], examples: int) -> _T:
    """Does it within the limits; the operating system ends the process beyond them."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + _MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    seconds = _CPU_S + _CPU_S_EACH * examples
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    return work()


def main(name: str) -> None:
    """Runs a format's target."""
    # What is loaded later counts as well: everything is used once before.
    run = target(name)
    for declared in FORMATS[name]:
        check(_query(declared), [(b"k", b"{}", 5)])
    limited(partial(run), settings().max_examples)


if __name__ == "__main__":
    main(sys.argv[1])
