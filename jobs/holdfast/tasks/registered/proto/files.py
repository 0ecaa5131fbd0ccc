"""The declarations of a .proto file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

__all__ = [
    "DATE",
    "DECIMAL",
    "SCALARS",
    "TIME",
    "TIMESTAMP",
    "WRAPPERS",
    "ProtoError",
    "ProtoField",
    "ProtoFile",
    "ProtoMessage",
]

SCALARS = frozenset({
    "double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32",
    "fixed64", "sfixed32", "sfixed64", "bool", "string", "bytes",
})  # fmt: skip
DECIMAL = "confluent.type.Decimal"
TIMESTAMP = "google.protobuf.Timestamp"
DATE = "google.type.Date"
TIME = "google.type.TimeOfDay"
WRAPPERS = {
    f"google.protobuf.{name}Value": scalar
    for name, scalar in {
        "Bool": "bool", "Int32": "int32", "Int64": "int64", "UInt32": "uint32",
        "UInt64": "uint64", "Float": "float", "Double": "double", "String": "string",
        "Bytes": "bytes",
    }.items()
}  # fmt: skip


class ProtoError(ValueError):
    """A schema cannot be read, or does not fit; the message says why.  Callers translate it."""


@dataclass(frozen=True)
class ProtoField:
    """A field of a message.

    Attributes:
        type: a scalar's name, or the full name of a message or an enum.
        optional: it tells an absent value from a default one (`optional` in proto3).
        oneof: the oneof that it is a member of; empty: none.
        entries: it is a map: repeated, and `type` is a message of a key and a value.
        default: the value in place of an absent one, where proto2 declares it, or has an enum;
            empty: the type's.
        precision, scale: of a decimal, by Confluent's annotation; precision 0: none is told.
    """

    name: str
    number: int
    type: str
    repeated: bool = False
    optional: bool = False
    oneof: str = ""
    entries: bool = False
    default: str = ""
    precision: int = 0
    scale: int = 0


@dataclass(frozen=True)
class ProtoMessage:
    """A message; `nested` are the full names of those within it, in order."""

    name: str
    fields: tuple[ProtoField, ...] = ()
    oneofs: tuple[str, ...] = ()
    nested: tuple[str, ...] = ()

    @property
    def simple_name(self) -> str:
        return self.name.rpartition(".")[2]


@dataclass(frozen=True)
class ProtoFile:
    """A file's declarations, and those of the files that it imports.

    Attributes:
        top: full names of the file's own outermost messages, in order.
        messages: every message by its full name.
        enums: names by number, the first one first, by the enum's full name.
        closed: proto2's enums, by their full names: a number that one does not have is as if
            nothing were there.
    """

    package: str = ""
    top: tuple[str, ...] = ()
    messages: Mapping[str, ProtoMessage] = field(default_factory=dict)
    enums: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    closed: frozenset[str] = frozenset()

    def with_imports(self, files: Sequence[ProtoFile]) -> ProtoFile:
        """This file with what others declare."""
        messages = {name: m for each in files for name, m in each.messages.items()}
        enums = {name: e for each in files for name, e in each.enums.items()}
        closed = {name for each in files for name in each.closed} - self.enums.keys()
        return replace(
            self,
            messages=messages | dict(self.messages),
            enums=enums | dict(self.enums),
            closed=self.closed | closed,
        )

    def entry(self, field: ProtoField) -> tuple[ProtoField, ProtoField]:
        """The key and the value of a map's entries, which are never absent."""
        key, value = (
            replace(part, optional=False, oneof="", default="")
            for part in self.messages[field.type].fields
        )
        return key, value

    def written(self, field: ProtoField) -> str:
        """A field's type as its text has it."""
        if field.entries:
            key, value = self.entry(field)
            return f"map<{key.type}, {value.type}>"
        return f"repeated {field.type}" if field.repeated else field.type

    def at(self, indexes: Sequence[int]) -> ProtoMessage:
        """The message that a record's header names: an outermost one, and those within it.

        Raises:
            ProtoError: there is none.
        """
        names, found = self.top, None
        for index in indexes:
            if not 0 <= index < len(names):
                raise ProtoError(
                    f"its header names message {'.'.join(map(str, indexes))}, but there are only "
                    f"{len(names)} at that place"
                )
            found = self.messages[names[index]]
            names = found.nested
        if found is None:
            raise ProtoError("its header names no message")
        return found

    def named(self, full_name: str) -> ProtoMessage:
        """A message by its full name; the first one for an empty name.

        Raises:
            ProtoError: there is none.
        """
        if not full_name and self.top:
            return self.messages[self.top[0]]
        if full_name not in self.messages:
            raise ProtoError(
                f"there is no message {full_name or '(first)'}, only {', '.join(self.top)}"
            )
        return self.messages[full_name]

    def indexes(self, full_name: str) -> tuple[int, ...]:
        """The inverse of `at`."""
        return _path(self, self.top, full_name) or (0,)


def _path(file: ProtoFile, names: Sequence[str], wanted: str) -> tuple[int, ...]:
    for index, name in enumerate(names):
        if name == wanted:
            return (index,)
        inner = _path(file, file.messages[name].nested, wanted)
        if inner:
            return (index, *inner)
    return ()
