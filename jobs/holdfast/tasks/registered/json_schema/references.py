"""Finds what `$ref` refers to, within a schema and in the schemas it was registered with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from holdfast.errors import SchemaRefused

__all__ = ["Documents", "Place"]

_IDENTIFIED_MAX = 100_000  # values of a document that are searched for names


@dataclass(frozen=True)
class Place:
    """A place within a document; the root's is empty."""

    document: str
    pointer: str = ""


class Documents:
    """A schema and those it refers to, each by its name; that of the first is empty."""

    def __init__(self, documents: Mapping[str, Any]) -> None:
        self._documents = documents
        self._identified = {name: _identified(each) for name, each in documents.items()}

    def find(self, reference: Any, at: Place) -> tuple[Any, Place]:
        """The schema that a reference at some place means, and its own place.

        Raises:
            SchemaRefused: there is none.
        """
        if not isinstance(reference, str):
            raise _missing(reference)
        address, fragment = urldefrag(reference)
        document = at.document
        if address:
            inside = self._identified[document].get(address)
            if inside is not None:
                return self._at(inside, fragment, Place(document, address), reference)
            document = self._document(address, at)
        return self._at(self._documents[document], fragment, Place(document), reference)

    def _document(self, address: str, at: Place) -> str:
        root = self._documents[at.document]
        own = root.get("$id", root.get("id", "")) if isinstance(root, dict) else ""
        absolute = urljoin(own if isinstance(own, str) else "", address)
        for name, each in self._documents.items():
            known = each.get("$id") if isinstance(each, dict) else None
            if name in (address, absolute) or known in (address, absolute):
                return name
        raise _missing(address)

    def _at(self, within: Any, fragment: str, place: Place, reference: str) -> tuple[Any, Place]:
        found, pointer = within, unquote(fragment)
        if pointer and not pointer.startswith("/"):
            found = self._identified[place.document].get(f"#{pointer}")
            if found is None:
                raise _missing(reference)
        else:
            for step in pointer.split("/")[1:]:
                found = _step(found, step.replace("~1", "/").replace("~0", "~"), reference)
        return found, Place(place.document, f"{place.pointer}#{pointer}" if pointer else "")


def _step(within: Any, name: str, reference: str) -> Any:
    if isinstance(within, dict) and name in within:
        return within[name]
    if isinstance(within, list) and name.isascii() and name.isdigit() and int(name) < len(within):
        return within[int(name)]
    raise _missing(reference)


def _identified(document: Any) -> dict[str, Any]:
    """The schemas within a document that have a name: `$id` or `$anchor`."""
    found: dict[str, Any] = {}
    waiting, seen = [document], 0
    while waiting and seen < _IDENTIFIED_MAX:
        each = waiting.pop()
        seen += 1
        if isinstance(each, list):
            waiting += each
        if not isinstance(each, dict):
            continue
        waiting += each.values()
        for key, sign in (("$id", ""), ("id", ""), ("$anchor", "#")):
            name = each.get(key)
            if isinstance(name, str) and name:
                found.setdefault(sign + name, each)
    return found


def _missing(reference: object) -> SchemaRefused:
    return SchemaRefused(
        f"This is no JSON schema that can be read: it refers to {str(reference)[:200]!r}, which "
        "it does not have.",
        action="register the schema together with those it refers to",
    )
