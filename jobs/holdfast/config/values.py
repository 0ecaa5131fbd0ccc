"""The kinds of property values: each kind parses text or YAML and says what it takes."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

__all__ = [
    "Kind",
    "choice",
    "collector",
    "database",
    "flag",
    "name",
    "number",
    "paths",
    "place",
    "servers",
    "text",
    "whole",
]

_SERVER = re.compile(r"(\[[0-9a-fA-F:]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")
_NAME = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Kind:
    """One kind of value.

    Attributes:
        allowed: what it takes, in words, for tables and messages ("1 to 1024").
        parse: turns text, or a YAML scalar or list, into the value; ValueError if it does not fit.
    """

    allowed: str
    parse: Callable[[object], object]


def whole(minimum: int, maximum: int) -> Kind:
    """A whole number in a closed range; `_` may group digits."""

    def parse(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise ValueError(f"{value!r} is not a whole number")
        number = int(value)
        if not minimum <= number <= maximum:
            raise ValueError(f"{number} is out of range")
        return number

    return Kind(f"{minimum:,} to {maximum:,}", parse)


def number(minimum: float, maximum: float) -> Kind:
    """A number in a closed range, with or without a fraction."""

    def parse(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise ValueError(f"{value!r} is not a number")
        try:
            found = float(value)
        except ValueError:
            raise ValueError(f"{value!r} is no number") from None
        if not minimum <= found <= maximum:
            raise ValueError(f"{found:g} is out of range")
        return found

    return Kind(f"{minimum:g} to {maximum:g}", parse)


def flag() -> Kind:
    """true or false."""

    def parse(value: object) -> bool:
        if isinstance(value, bool):
            return value
        lowered = str(value).strip().lower()
        if lowered not in ("true", "false"):
            raise ValueError(f"{value!r} is neither")
        return lowered == "true"

    return Kind("true, false", parse)


def choice(*allowed: str) -> Kind:
    """One of a few words; case does not matter."""

    def parse(value: object) -> str:
        # YAML reads an unquoted `none` as text, but `off`, `no` and the like as false.
        lowered = str(value).strip().lower()
        if lowered not in allowed:
            raise ValueError(f"{value!r} is none of them")
        return lowered

    return Kind(", ".join(allowed), parse)


def text(allowed: str = "text") -> Kind:
    """Any text."""

    def parse(value: object) -> str:
        if isinstance(value, dict | list) or value is None:
            raise ValueError(f"{value!r} is not text")
        return str(value).strip()

    return Kind(allowed, parse)


def name(length_max: int) -> Kind:
    """A name that may be part of a Kafka topic's name."""

    def parse(value: object) -> str:
        word = str(value).strip()
        if not _NAME.fullmatch(word):
            raise ValueError(f"{word!r} has other characters")
        if len(word) > length_max:
            raise ValueError(f"{word!r} has {len(word)} characters")
        return word

    return Kind(f"letters, digits, `.`, `_`, `-`; at most {length_max}", parse)


def savepoint() -> Kind:
    """A savepoint of a job: the job's name and its own."""

    def parse(value: object) -> str:
        found = str(value).strip()
        parts = found.split("/")
        if found and (len(parts) != 2 or not all(map(_NAME.fullmatch, parts))):
            raise ValueError(f"{found!r} is not of this form")
        return found

    return Kind("APPLICATION/NAME", parse)


def servers() -> Kind:
    """A comma-separated list of host:port."""

    def parse(value: object) -> str:
        parts = [part.strip() for part in str(value).split(",") if part.strip()]
        for part in parts:
            match = _SERVER.fullmatch(part)
            if match is None or not 1 <= int(match[2]) <= 65_535:
                raise ValueError(f"{part!r} is not host:port")
        if not parts:
            raise ValueError("it is empty")
        return ",".join(parts)

    return Kind("host:port, …", parse)


def paths() -> Kind:
    """A comma-separated (YAML: real) list of paths."""

    def parse(value: object) -> tuple[str, ...]:
        items = value if isinstance(value, list) else str(value).split(",")
        return tuple(str(item).strip() for item in items if str(item).strip())

    return Kind("paths, comma-separated", parse)


def place(*schemes: str) -> Kind:
    """An absolute path, or a URI of one of these schemes without credentials."""

    def parse(value: object) -> str:
        found = str(value).strip()
        if not found or found.startswith("/"):
            return found
        parts = urlsplit(found)
        if parts.scheme not in schemes or not found.startswith(f"{parts.scheme}://"):
            raise ValueError("it is neither")
        # Azure's URIs begin with container@account.
        if parts.password or ("@" in parts.netloc and parts.scheme != "abfs"):
            raise ValueError(
                "it holds credentials, which everybody who sees the job's settings could read; "
                "give them in the environment of driver and executors"
            )
        return found

    return Kind(f"an absolute path, or {', '.join(f'{s}://…' for s in schemes)}", parse)


def database() -> Kind:
    """The URI of a database for remote stores, without credentials."""

    def parse(value: object) -> str:
        found = str(value).strip()
        parts = urlsplit(found)
        check = _DATABASES.get(parts.scheme)
        if check is None or not parts.hostname or parts.port == 0:
            raise ValueError("it is none of them")
        check(parts)
        return found

    return Kind(
        "redis://host:port/number, rediss://host:port/number or dynamodb://region/table", parse
    )


def collector() -> Kind:
    """The URL of a server that takes OTLP over HTTP, without credentials."""

    def parse(value: object) -> str:
        found = str(value).strip().rstrip("/")
        parts = urlsplit(found)
        if found and (parts.scheme not in {"http", "https"} or not parts.hostname or parts.query):
            raise ValueError("it is none")
        _refuse_credentials(parts, "give them in OTEL_EXPORTER_OTLP_HEADERS")
        return found

    return Kind("http://host:port or https://host:port", parse)


def _check_redis(parts: SplitResult) -> None:
    _refuse_credentials(parts, "set state.remote.user and state.remote.password.file")
    number = parts.path.removeprefix("/")
    if parts.query or parts.fragment or (number and not number.isdecimal()):
        raise ValueError("it has more than a server and a number")


def _check_dynamodb(parts: SplitResult) -> None:
    _refuse_credentials(parts, "give the executors a role, or AWS_* variables")
    if parts.port or parts.query or parts.fragment or not _TABLE.fullmatch(parts.path):
        raise ValueError("it has more or less than a region and the name of a table")


def _refuse_credentials(parts: SplitResult, instead: str) -> None:
    if "@" in parts.netloc:
        raise ValueError(
            "it holds credentials, which everybody who sees the job's settings could read; "
            f"{instead}"
        )


_DATABASES = {"redis": _check_redis, "rediss": _check_redis, "dynamodb": _check_dynamodb}
_TABLE = re.compile(r"/[A-Za-z0-9_.-]{3,255}")
