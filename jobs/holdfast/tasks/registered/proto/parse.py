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
from itertools import takewhile

from holdfast.tasks.registered.proto.described import described_file, is_described
from holdfast.tasks.registered.proto.files import (
    SCALARS,
    ProtoError,
    ProtoField,
    ProtoFile,
    ProtoMessage,
)
from holdfast.tasks.registered.proto.known import KNOWN

__all__ = ["known_files", "known_message", "parse_proto", "whole_number"]

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
_META = re.compile(r"""(key|value) :? ?["']([^"']*)["']""")
_SMALL = re.compile(r"[0-9]{1,4}")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
_ENTRY = "Entry"  # how messages of map entries are called
_KEYS = SCALARS - {"double", "float", "bytes"}


def parse_proto(text: str, references: Iterable[tuple[str, str]] = ()) -> ProtoFile:
    """The declarations of a schema and of what it imports.

    Args:
        text: of the .proto file, or its descriptor in base64.
        references: name and text of the files that it imports, each after those it needs.

    Raises:
        ProtoError: the text is no .proto file, or a type of a field is not declared.
    """
    imported = [*known_files()]
    for name, source in references:
        try:
            imported.append(_resolved(_declared(source), imported))
        except ProtoError as error:
            raise ProtoError(f"its reference {name}: {error}") from error
    return _resolved(_declared(text), imported)


def _declared(text: str) -> ProtoFile:
    if len(text) > _TEXT_MAX:
        raise ProtoError(f"{len(text)} characters; the limit is {_TEXT_MAX}")
    return described_file(text) if is_described(text) else _Parser(text).file()


@cache
def known_files() -> tuple[ProtoFile, ...]:
    """The files that need no reference."""
    return tuple(_resolved(_Parser(text).file(), ()) for text in KNOWN.values())


@cache
def known_message(full_name: str) -> ProtoMessage:
    """A message of `known_files`, whatever a schema's references say of it."""
    return next(f.messages[full_name] for f in known_files() if full_name in f.messages)


class _Parser:
    """One pass over the tokens of one file."""

    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._at = 0
        self._package = ""
        self._proto3 = self._edition = False
        self._messages: dict[str, ProtoMessage] = {}
        self._enums: dict[str, dict[int, str]] = {}

    def file(self) -> ProtoFile:
        top: list[str] = []
        while self._at < len(self._tokens):
            word = self._next()
            if word == "package":
                self._package = self._next()
                self._expect(";")
            elif word == "syntax":
                self._expect("=")
                self._proto3 = self._next()[1:-1] == "proto3"
                self._expect(";")
            elif word == "message":
                top.append(self._message(self._package, 1))
            elif word == "enum":
                self._enum(self._package)
            elif word in ("edition", "import", "option", "service", "extend"):
                self._edition |= word == "edition"
                self._skip()
            elif word != ";":
                raise self._wrong(word)
        closed = frozenset(() if self._proto3 or self._edition else self._enums)
        return ProtoFile(self._package, tuple(top), self._messages, self._enums, closed)

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
                fields.extend(self._oneof(name, oneofs[-1]))
            elif word in ("option", "reserved", "extensions", "extend"):
                self._skip()
            elif word != ";":
                fields.append(self._field(name, word))
        _check(name, fields)
        self._messages[name] = ProtoMessage(name, tuple(fields), tuple(oneofs), tuple(nested))
        return name

    def _oneof(self, scope: str, oneof: str) -> Iterable[ProtoField]:
        self._expect("{")
        while (word := self._next()) != "}":
            if word == "option":
                self._skip()
            elif word != ";":
                yield replace(self._field(scope, word), oneof=oneof, default="")

    def _field(self, scope: str, word: str) -> ProtoField:
        label = word if word in _LABELS else ""
        kind = self._next() if label else word
        if kind == "group":
            raise ProtoError("it has a group, which proto3 and ksqlDB do not know")
        if kind == "map" and self._peek() == "<":
            return self._map(scope)
        return replace(
            self._rest(kind),
            repeated=label == "repeated",
            optional=label == "optional" and self._proto3,
        )

    def _map(self, scope: str) -> ProtoField:
        """A map, and the message of its entries as protoc makes it."""
        self._expect("<")
        key = self._next()
        if key not in _KEYS:
            raise self._wrong(key, ", not a type of a map's keys")
        self._expect(",")
        kind = self._next()
        self._expect(">")
        value = self._rest(kind)
        simple = "".join(part[:1].upper() + part[1:] for part in value.name.split("_"))
        entry = _within(scope, f"{simple}{_ENTRY}")
        fields = (ProtoField("key", 1, key), replace(value, name="value", number=2, default=""))
        self._messages[entry] = ProtoMessage(entry, fields)
        return ProtoField(value.name, value.number, entry, repeated=True)

    def _rest(self, kind: str) -> ProtoField:
        """A field after its type."""
        name = self._name()
        self._expect("=")
        number = self._number()
        options = self._options()
        self._expect(";")
        return ProtoField(
            name,
            number,
            kind,
            default=options.get("default", ""),
            precision=int(options.get("precision", 0)),
            scale=int(options.get("scale", 0)),
        )

    def _options(self) -> Mapping[str, str]:
        """The default, and Confluent's annotation of decimals, of all options in brackets."""
        if self._peek() != "[":
            return {}
        start, depth = self._at, 0
        while True:
            depth += {"[": 1, "]": -1}.get(self._next(), 0)
            if depth == 0:
                break
        words = self._tokens[start : self._at]
        found: dict[str, str] = {}
        for inner in _PAIR.findall(" ".join(words)):
            pair = dict(_META.findall(inner))
            if pair.get("key") in ("precision", "scale") and _SMALL.fullmatch(pair["value"]):
                found[pair["key"]] = pair["value"]
        for at in range(1, len(words) - 2):
            if words[at : at + 2] == ["default", "="] and words[at - 1] in ("[", ","):
                found["default"] = _value(words[at + 2 :])
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
                values.setdefault(self._number(least=-(1 << 31)), word)
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
        number = whole_number(f"-{self._next()}" if word == "-" else word)
        if number is None:
            raise self._wrong(word, ", not a number")
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


def whole_number(word: str) -> int | None:
    """A whole number as .proto text has it: decimal, 0x… or 0…, octal."""
    body = word.lstrip("+-")
    octal = len(body) > 1 and body.isdigit() and body[0] == "0"
    try:
        number = int(body, 8 if octal else 0)
    except ValueError:
        return None
    return -number if word.startswith("-") else number


def _value(words: list[str]) -> str:
    """An option's value: strings that stand side by side are one, a sign belongs to its number."""
    texts = list(takewhile(lambda word: word.startswith(("'", '"')), words))
    if texts:
        return "".join(_unquoted(each) for each in texts)
    return "".join(words[:2]) if words[0] in "+-" else words[0]


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), text[1:-1])


def _within(scope: str, name: str) -> str:
    return f"{scope}.{name}" if scope else name


def _check(name: str, fields: Iterable[ProtoField]) -> None:
    numbers: set[int] = set()
    for each in fields:
        if each.number in numbers:
            raise ProtoError(f"message {name} has the field number {each.number} twice")
        numbers.add(each.number)


def _resolved(file: ProtoFile, imported: Iterable[ProtoFile]) -> ProtoFile:
    """The file with what it imports, full names for the types of its fields, and its maps found."""
    whole = file.with_imports(tuple(imported))
    known = whole.messages.keys() | whole.enums.keys()
    own = {
        name: replace(m, fields=tuple(_field(whole, name, f, known) for f in m.fields))
        for name, m in file.messages.items()
    }
    return replace(whole, messages={**whole.messages, **own})


def _field(file: ProtoFile, scope: str, field: ProtoField, known: Iterable[str]) -> ProtoField:
    kind = _full_name(field.type, scope, known)
    entries = field.repeated and kind in file.messages and _holds_entries(file.messages[kind])
    default = field.default
    if kind in file.closed and not (default or field.repeated or field.oneof):
        default = next(iter(file.enums[kind].values()), "")
    return replace(field, type=kind, entries=entries, default=default)


def _holds_entries(message: ProtoMessage) -> bool:
    """Whether a list of it is a map: entries as protoc makes them, or as Connect writes them."""
    if not message.simple_name.endswith(_ENTRY) or any(f.repeated for f in message.fields):
        return False
    return [f.name for f in message.fields] == ["key", "value"]


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
