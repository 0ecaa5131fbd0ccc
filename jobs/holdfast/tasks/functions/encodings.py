"""Functions over bytes and their encodings."""

from __future__ import annotations

import base64
import re
import struct
import uuid
from collections.abc import Callable
from typing import Any

from holdfast.tasks.functions.base import PythonFunction
from holdfast.tasks.functions.limits import room, room_for

__all__ = ["ENCODINGS"]


def _ascii_text(raw: bytes) -> str:
    # Java's decoder replaces bytes that are not ASCII one by one.
    return "".join(chr(b) if b < 128 else "\ufffd" for b in raw)


def _ascii_bytes(text: str) -> bytes:
    return text.encode("ascii", errors="replace")


def _utf8_text(raw: bytes) -> str:
    return raw.decode("utf-8", errors="replace")


def _base64_bytes(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)


_TO_BYTES: dict[str, Callable[[str], bytes]] = {
    "hex": bytes.fromhex,
    "utf8": str.encode,
    "ascii": _ascii_bytes,
    "base64": _base64_bytes,
}
_FROM_BYTES: dict[str, Callable[[bytes], str]] = {
    "hex": lambda raw: raw.hex().upper(),
    "utf8": _utf8_text,
    "ascii": _ascii_text,
    "base64": lambda raw: base64.b64encode(raw).decode(),
}


def _to_bytes(text: str, encoding: str) -> bytes:
    return _TO_BYTES[encoding.lower()](text)


def _from_bytes(raw: bytes, encoding: str) -> str:
    return _FROM_BYTES[encoding.lower()](raw)


def _encode(text: str, source: str, target: str) -> str:
    source, target = source.lower(), target.lower()
    if source == target:
        raise ValueError(f"{source} to itself is no encoding")
    raw = _hex_bytes(text) if source == "hex" else _TO_BYTES[source](text)
    return raw.hex() if target == "hex" else _FROM_BYTES[target](raw)


def _hex_bytes(text: str) -> bytes:
    """The bytes of hex digits, optionally written 0x… or X'…'."""
    if text.startswith("0x"):
        digits = text[2:]
        text = f"0{digits}" if len(digits) % 2 else digits
    elif re.fullmatch(r"[xX]'.*'", text):
        text = text[2:-1]
    if len(text) % 2 or not re.fullmatch(r"[0-9A-Fa-f]*", text):
        raise ValueError("no hex digits, or an odd number of them")
    return bytes.fromhex(text)


def _number(code: str) -> Callable[..., Any]:
    """A function that reads one number; it fails for a wrong number of bytes."""

    def read(raw: bytes, order: str = "BIG_ENDIAN") -> Any:
        sign = {"BIG_ENDIAN": ">", "LITTLE_ENDIAN": "<"}[order.upper()]
        return struct.unpack(sign + code, raw)[0]

    return read


def _pad(left: bool) -> Callable[..., Any]:
    def pad(value: bytes, length: int, padding: bytes) -> bytes | None:
        if length < 0 or not padding:
            return None
        if len(value) >= length:
            return value[:length]
        room(length)
        missing = length - len(value)
        fill = (padding * (missing // len(padding) + 1))[:missing]
        return fill + value if left else value + fill

    return pad


def _split(value: bytes, delimiter: bytes) -> list[bytes]:
    room_for(value.count(delimiter) if delimiter else len(value))
    if not delimiter and value:
        return [value[i : i + 1] for i in range(len(value))]
    return value.split(delimiter) if delimiter else [value]


def _substring(value: bytes | str, position: int, length: int | None = None) -> bytes | str:
    size = len(value)
    start = max(size + position, 0) if position < 0 else max(min(position - 1, size), 0)
    end = size if length is None else max(min(start + length, size), start)
    return value[start:end]


def _concat(*values: bytes | None) -> bytes:
    return b"".join(v for v in values if v is not None)


def _concat_ws(separator: bytes | None, *values: bytes | None) -> bytes | None:
    return None if separator is None else separator.join(v for v in values if v is not None)


def _uuid(raw: bytes) -> str | None:
    return str(uuid.UUID(bytes=raw)) if len(raw) == 16 else None


ENCODINGS = (
    PythonFunction("BIGINT_FROM_BYTES", _number("q")),
    PythonFunction("BYTES_CONCAT", _concat, nulls=True),
    PythonFunction("BYTES_CONCAT_WS", _concat_ws, nulls=True),
    PythonFunction("BYTES_LPAD", _pad(left=True)),
    PythonFunction("BYTES_RPAD", _pad(left=False)),
    PythonFunction("BYTES_SPLIT", _split),
    PythonFunction("DOUBLE_FROM_BYTES", _number("d")),
    PythonFunction("ENCODE", _encode),
    PythonFunction("FROM_BYTES", _from_bytes),
    PythonFunction("INT_FROM_BYTES", _number("i")),
    PythonFunction("SUBSTRING", _substring),
    PythonFunction("TO_BYTES", _to_bytes),
    PythonFunction("UUID", _uuid),
    PythonFunction("UUID_ANEW", lambda _row: str(uuid.uuid4())),
)
