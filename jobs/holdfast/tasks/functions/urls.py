"""Functions over URLs, read as java.net.URI reads them."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import quote, unquote, unquote_plus, urlsplit

from holdfast.tasks.functions.base import PythonFunction

__all__ = ["URLS"]

# java.net.URI refuses these: blanks, control characters, quotes, a % without two hex digits.
_ILLEGAL = re.compile(r'[\x00-\x20"<>\\^`{|}\x7f]|%(?![0-9A-Fa-f]{2})')
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_HOST = re.compile(r"(?:[^@]*@)?(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(?::(\d*))?")


class _Url:
    """The parts of a URL, as they were written."""

    def __init__(self, text: str) -> None:
        if _ILLEGAL.search(text) or not text:
            raise ValueError("no URI")
        self.body, hash_mark, fragment = text.partition("#")
        self.fragment = fragment if hash_mark else None
        found = _SCHEME.fullmatch(self.body)
        self.scheme = found.group(1) if found else None
        rest = found.group(2) if found else self.body
        self.opaque = found is not None and not rest.startswith("/")
        parts = urlsplit(
            rest if rest.startswith("//") else f"//h{'' if rest[:1] == '/' else '/'}{rest}"
        )
        self.authority = parts.netloc if rest.startswith("//") else None
        self.query = parts.query if "?" in rest and not self.opaque else None
        before, _, _ = rest.partition("?")
        self.path = before[2 + len(parts.netloc) :] if rest.startswith("//") else before

    def host(self) -> tuple[str | None, str | None]:
        found = _HOST.fullmatch(self.authority or "")
        return (found.group(1), found.group(2)) if found else (None, None)


def _port(url: _Url) -> int | None:
    port = url.host()[1]
    return int(port) if port else None


def _decoded(part: str | None) -> str | None:
    return None if part is None else unquote(part, errors="replace")


def _extract(part: Callable[[_Url], str | int | None]) -> Callable[[str], str | int | None]:
    return lambda text: part(_Url(text))


def _parse_url(text: str, part: str) -> str | None:
    """A part by Spark's name for it, as it was written; NULL where there is none."""
    if not text:
        return "" if part in ("PATH", "FILE") else None
    url = _Url(text)
    if url.opaque:
        return {"PROTOCOL": url.scheme, "REF": url.fragment}.get(part)
    host = url.host()[0]
    query = "" if url.query is None else f"?{url.query}"
    user, at, _ = (url.authority or "").rpartition("@")
    return {
        "AUTHORITY": url.authority or None,
        "FILE": f"{url.path}{query}",
        "HOST": host,
        "PATH": url.path,
        "PROTOCOL": url.scheme,
        "QUERY": url.query,
        "REF": url.fragment,
        "USERINFO": user if at and host else None,
    }.get(part)


def _parameter(text: str, name: str) -> str | None:
    query = _decoded(_Url(text).query)
    for pair in [] if query is None else query.split("&"):
        key, _, value = pair.partition("=")
        if key == name:
            return value
    return None


def _decode(text: str) -> str:
    if re.search(r"%(?![0-9A-Fa-f]{2})", text):
        raise ValueError("a % without two hex digits")
    return unquote_plus(text, errors="replace")


def _encode(text: str) -> str:
    return quote(text, safe=" *-._").replace("~", "%7E").replace(" ", "+")


URLS = (
    PythonFunction("PARSE_URL", _parse_url),
    PythonFunction("URL_DECODE_PARAM", _decode),
    PythonFunction("URL_ENCODE_PARAM", _encode),
    PythonFunction("URL_EXTRACT_FRAGMENT", _extract(lambda u: _decoded(u.fragment))),
    PythonFunction("URL_EXTRACT_HOST", _extract(lambda u: u.host()[0])),
    PythonFunction("URL_EXTRACT_PARAMETER", _parameter),
    PythonFunction("URL_EXTRACT_PATH", _extract(lambda u: None if u.opaque else _decoded(u.path))),
    PythonFunction("URL_EXTRACT_PORT", _extract(_port)),
    PythonFunction("URL_EXTRACT_PROTOCOL", _extract(lambda u: u.scheme)),
    PythonFunction("URL_EXTRACT_QUERY", _extract(lambda u: _decoded(u.query))),
)
