"""Records of test files as bytes of a topic, and back."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from holdfast.errors import InvalidTestCase
from holdfast.testing.bytes_of import RawRecord, TopicCodec
from holdfast.testing.cases import Spec, SpecWindow, WindowType
from holdfast.types.columns.schema import BIGINT, DOUBLE, INTEGER, STRING, Column, SqlType
from holdfast.types.statements.topology import Format, Source, WindowKind


def _codec(key: SqlType | None = STRING, **changes: Any) -> TopicCodec:
    keys = () if key is None else (Column("K", key),)
    return TopicCodec(Source("S", "STREAM", "t", keys, (Column("V", STRING),), **changes))


@pytest.mark.parametrize(
    ("kind", "key", "data"),
    [
        (STRING, "é", "é".encode()),
        (INTEGER, 7, b"\0\0\0\7"),
        (BIGINT, -1, b"\xff" * 8),
        (DOUBLE, Decimal("1.0"), b"\x3f\xf0" + bytes(6)),
        (STRING, None, None),
    ],
)
def test_kafka_keys_both_ways(kind: SqlType, key: Any, data: bytes | None) -> None:
    codec = _codec(kind)
    raw = codec.encode(Spec("t", key, None, 5))
    assert raw == RawRecord(data, None, 5)
    assert codec.decode(raw) == Spec("t", key, None, 5, headers=())


def test_json_keeps_every_digit() -> None:
    value = {"A": [Decimal("1.10"), True, None, "x"], "B": 2}
    raw = _codec().encode(Spec("t", "k", value))
    assert raw.value == b'{"A":[1.10,true,null,"x"],"B":2}'
    assert _codec().decode(raw).value == value


def test_delimited_values_are_text() -> None:
    codec = _codec(value_format=Format.DELIMITED)
    raw = codec.encode(Spec("t", "k", '1,"a,b"'))
    assert raw.value == b'1,"a,b"'
    assert codec.decode(raw).value == '1,"a,b"'
    with pytest.raises(InvalidTestCase, match="its format is DELIMITED"):
        codec.encode(Spec("t", "k", {"A": 1}))


def test_a_key_nobody_declared_may_be_any_text() -> None:
    assert _codec(None).encode(Spec("t", "ignored", None)).key == b"ignored"


def test_a_key_of_another_type_is_refused_with_its_column() -> None:
    with pytest.raises(InvalidTestCase, match=r'"x", which is no INTEGER \(K\)'):
        _codec(INTEGER).encode(Spec("t", "x", None))


@pytest.mark.parametrize(
    ("kind", "window"),
    [
        (WindowKind.TUMBLING, SpecWindow(10, 20, WindowType.TIME)),
        (WindowKind.SESSION, SpecWindow(10, 13, WindowType.SESSION)),
    ],
)
def test_windows_are_behind_the_key(kind: WindowKind, window: SpecWindow) -> None:
    codec = _codec(window=kind, window_size_ms=10)
    raw = codec.encode(Spec("t", "k", "v", 1, window))
    ends = b"" if kind is WindowKind.TUMBLING else (13).to_bytes(8, "big")
    assert raw.key == b"k" + ends + (10).to_bytes(8, "big")
    assert codec.decode(raw) == Spec("t", "k", "v", 1, window, ())


def test_bytes_of_another_format_are_shown() -> None:
    with pytest.raises(InvalidTestCase, match=r"topic t is not in its formats.*b'\{'"):
        _codec().decode(RawRecord(b"k", b"{", 0))
