"""The page's static files, from the package."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

__all__ = ["INDEX", "PAGE_POLICY", "REPORT_POLICY", "StaticFile", "static_files"]

INDEX = "index.html"
_NOTHING = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
# Reports are pages with inline styles.
REPORT_POLICY = f"{_NOTHING}; style-src 'unsafe-inline'; img-src data:; sandbox allow-popups"
PAGE_POLICY = (
    f"{_NOTHING}; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "require-trusted-types-for 'script'"
)

_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True)
class StaticFile:
    """One file; `tag` changes with its content."""

    body: bytes
    kind: str
    tag: str


@cache
def static_files() -> Mapping[str, StaticFile]:
    """Files by their path below `static/`, and `colors.css`, which reports use as well."""
    found = dict(_walk(resources.files("holdfast.serve.console").joinpath("static"), ""))
    colors = resources.files("holdfast.pages").joinpath("colors.css")
    return {**found, "colors.css": _file(colors)}


def _walk(folder: Traversable, prefix: str) -> Iterator[tuple[str, StaticFile]]:
    for each in folder.iterdir():
        if each.is_dir():
            yield from _walk(each, f"{prefix}{each.name}/")
        elif _suffix(each.name) in _KINDS:
            yield f"{prefix}{each.name}", _file(each)


def _file(path: Traversable) -> StaticFile:
    body = path.read_bytes()
    return StaticFile(body, _KINDS[_suffix(path.name)], hashlib.sha256(body).hexdigest()[:16])


def _suffix(name: str) -> str:
    return name[name.rfind(".") :]
