"""Reads .proto text: proto2 and proto3, as far as the layout of messages depends on it.

Written here, because a registry serves text and executors meet schemas that no driver has seen:
protoc is 10 MB beside each executor, and the pure parsers take seconds for a thousand fields or
accept what is no .proto file.  Services, extensions and options (but Confluent's of decimals) are
skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache

from holdfast.tasks.registered.proto.files import (
    SCALARS,
    ProtoError,
    ProtoField,
    ProtoFile,
    ProtoMessage,
)
from holdfast.tasks.registered.proto.known import KNOWN

__all__ = ["known_files", "parse_proto"]

_TEXT_MAX = 4_000_000  # characters
_DEPTH_MAX = 64
_TOKEN = re.compile(
    r"""\s+|//[^\n]*|/\*.*?\*/"""
    r"""|(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')"""
    r"""|(?P<word>\.?[A-Za-z_][A-Za-z0-9_.]*|[-+]?[0-9][A-Za-z0-9_.+-]*)"""
    r"""|(?P<sign>[{}()\[\]<>=;,:/+.-])""",
    re.DOTALL,
)
_LABELS = ("optional", "required", "repeated")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NUMBER_MAX = (1 << 29) - 1
_PAIR = re.compile(r"\{([^{}]*)\}")


def parse_proto(text: str, references: Iterable[tuple[str, str]] = ()) -> ProtoFile:
    """The declarations of a schema and of what it imports.

    Args:
        references: name and text of the files that it imports, each after those it needs.

    Raises:
        ProtoError: the text is no .proto file, or a type of a field is not declared.
    """
    imported = [*known_files()]
    for name, source in references:
        try:
            imported.append(_resolved(_Parser(source).file().with_imports(imported)))
        except ProtoError as error:
            raise ProtoError(f"its reference {name}: {error}") from error
    return _resolved(_Parser(text).file().with_imports(imported))


@cache
def known_files() -> tuple[ProtoFile, ...]:
    """The files that need no reference."""
    return tuple(_Parser(text).file() for text in KNOWN.values())


class _Parser:
    """One pass over the tokens of one file."""

    def __init__(self, text: str) -> None:
        if len(text) > _TEXT_MAX:
            raise ProtoError(f"{len(text)} characters; the limit is {_TEXT_MAX}")
        self._tokens = _tokens(text)
        self._at = 0
        self._package = ""
        self._messages: dict[str, ProtoMessage] = {}
        self._enums: dict[str, dict[int, str]] = {}

    def file(self) -> ProtoFile:
        top: list[str] = []
        while self._at < len(self._tokens):
            word = self._next()
            if word == "package":
                self._package = self._next()
                self._expect(";")
            elif word == "message":
                top.append(self._message(self._package, 1))
            elif word == "enum":
                self._enum(self._package)
            elif word in ("syntax", "edition", "import", "option") or word in ("service", "extend"):
                self._skip()
            elif word != ";":
                raise self._wrong(word)
        return ProtoFile(self._package, tuple(top), self._messages, self._enums)

    def _message(self, scope: str, depth: int) -> str:
        if depth > _DEPTH_MAX:
            raise ProtoError(f"messages are nested more than {_DEPTH_MAX} deep")
        name = _within(scope, self._name())
        self._expect("{")
        fields: list[ProtoField] = []
        oneofs: list[str] = []
        nested: list[str] = []
        while (word := self._next()) != "}":
            if word == "message" and self._peek(1) == "{":
                nested.append(self._message(name, depth + 1))
            elif word == "enum" and self._peek(1) == "{":
                self._enum(name)
            elif word == "oneof" and self._peek(1) == "{":
                oneofs.append(self._name())
                fields.extend(self._oneof(oneofs[-1]))
            elif word in ("option", "reserved", "extensions", "extend"):
                self._skip()
            elif word != ";":
                fields.append(self._field(word))
        _check(name, fields)
        self._messages[name] = ProtoMessage(name, tuple(fields), tuple(oneofs), tuple(nested))
        return name

    def _oneof(self, oneof: str) -> Iterable[ProtoField]:
        self._expect("{")
        while (word := self._next()) != "}":
            if word == "option":
                self._skip()
            elif word != ";":
                yield replace(self._field(word), oneof=oneof)

    def _field(self, word: str) -> ProtoField:
        label = word if word in _LABELS else ""
        kind = self._next() if label else word
        if kind == "group":
            raise ProtoError("it has a group, which proto3 and ksqlDB do not know")
        key = ""
        if kind == "map" and self._peek() == "<":
            self._expect("<")
            key = self._next()
            self._expect(",")
            kind = self._next()
            self._expect(">")
        name = self._name()
        self._expect("=")
        number = self._number()
        options = self._options()
        self._expect(";")
        return ProtoField(
            name,
            number,
            kind,
            repeated=label == "repeated",
            optional=label == "optional",
            map_key=key,
            precision=options.get("precision", 0),
            scale=options.get("scale", 0),
        )

    def _options(self) -> Mapping[str, int]:
        """Confluent's annotation of decimals, of all options in brackets."""
        if self._peek() != "[":
            return {}
        start, depth = self._at, 0
        while True:
            depth += {"[": 1, "]": -1}.get(self._next(), 0)
            if depth == 0:
                break
        found: dict[str, int] = {}
        for inner in _PAIR.findall(" ".join(self._tokens[start : self._at])):
            pair = dict(re.findall(r"""(key|value) : ["']([^"']*)["']""", inner))
            if pair.get("value", "").isdigit():
                found[pair.get("key", "")] = int(pair["value"])
        return found

    def _enum(self, scope: str) -> None:
        name = _within(scope, self._name())
        self._expect("{")
        values: dict[int, str] = {}
        while (word := self._next()) != "}":
            if word in ("option", "reserved") and self._peek() != "=":
                self._skip()
            elif word != ";":
                self._expect("=")
                sign = self._next() if self._peek() == "-" else ""
                values.setdefault(int(f"{sign}{self._number(least=-(1 << 31))}"), word)
                self._options()
                self._expect(";")
        self._enums[name] = values

    def _skip(self) -> None:
        """To the end of a statement: a semicolon, or the brace that closes its block."""
        depth = 0
        while True:
            word = self._next()
            depth += {"{": 1, "}": -1}.get(word, 0)
            if depth == 0 and word in (";", "}"):
                return

    def _next(self) -> str:
        if self._at >= len(self._tokens):
            raise ProtoError("it ends in the middle of a declaration")
        self._at += 1
        return self._tokens[self._at - 1]

    def _peek(self, ahead: int = 0) -> str:
        place = self._at + ahead
        return self._tokens[place] if place < len(self._tokens) else ""

    def _expect(self, sign: str) -> None:
        word = self._next()
        if word != sign:
            raise self._wrong(word, f", not {sign!r}")

    def _name(self) -> str:
        word = self._next()
        if not _NAME.fullmatch(word):
            raise self._wrong(word, ", not a name")
        return word

    def _number(self, least: int = 1) -> int:
        word = self._next()
        try:
            number = int(word, 0)
        except ValueError:
            raise self._wrong(word, ", not a number") from None
        if not least <= number <= max(_NUMBER_MAX, (1 << 31) - 1 if least < 1 else 0):
            raise ProtoError(f"{number} is no field number")
        return number

    def _wrong(self, word: str, wanted: str = "") -> ProtoError:
        return ProtoError(f"it is no .proto file: {word[:40]!r} stands at token {self._at}{wanted}")


def _tokens(text: str) -> list[str]:
    found, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ProtoError(f"it is no .proto file: character {at} is {text[at]!r}")
        if match.lastgroup is not None:
            found.append(match[0])
        at = match.end()
    return found


def _within(scope: str, name: str) -> str:
    return f"{scope}.{name}" if scope else name


def _check(name: str, fields: Iterable[ProtoField]) -> None:
    numbers: set[int] = set()
    for each in fields:
        if each.number in numbers:
            raise ProtoError(f"message {name} has the field number {each.number} twice")
        numbers.add(each.number)


def _resolved(file: ProtoFile) -> ProtoFile:
    """The file with full names for the types of its fields."""
    known = file.messages.keys() | file.enums.keys()
    return replace(
        file,
        messages={
            name: replace(
                m,
                fields=tuple(replace(f, type=_full_name(f.type, name, known)) for f in m.fields),
            )
            for name, m in file.messages.items()
        },
    )


def _full_name(kind: str, scope: str, known: Iterable[str]) -> str:
    """The innermost declaration of that name, as in C++."""
    if kind in SCALARS:
        return kind
    if kind.startswith("."):
        if kind[1:] in known:
            return kind[1:]
        scope = ""
    while scope:
        if f"{scope}.{kind}" in known:
            return f"{scope}.{kind}"
        scope = scope.rpartition(".")[0]
    if kind.removeprefix(".") in known:
        return kind.removeprefix(".")
    raise ProtoError(f"type {kind} is declared neither in it nor in its references")
