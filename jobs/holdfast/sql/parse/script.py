"""The text of a file of statements, and errors that point into it."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from holdfast.errors import InvalidStatement, Unsupported
from holdfast.types.words import nearest

__all__ = ["Script", "did_you_mean", "resolve_identifier", "start_of"]


class Script:
    """Owns the text; makes errors whose line and column (1-based) count in the whole file."""

    def __init__(self, text: str) -> None:
        self.text = text

    def place(self, at: int) -> tuple[int, int]:
        """Line and column, both from 1, of the character offset `at`."""
        at = max(0, min(at, len(self.text)))
        line = self.text.count("\n", 0, at) + 1
        return line, at - (self.text.rfind("\n", 0, at) + 1) + 1

    def invalid(self, at: int, fact: str, *, cause: str = "", action: str = "") -> InvalidStatement:
        """The statement is wrong at the character offset `at`."""
        line, column = self.place(at)
        return InvalidStatement(fact, cause=cause, action=action, line=line, column=column)

    def unsupported(self, at: int, fact: str, *, cause: str = "", action: str = "") -> Unsupported:
        """The statement is ksqlDB's, but Holdfast does not do it yet."""
        line, column = self.place(at)
        return Unsupported(fact, cause=cause, action=action, line=line, column=column)

    def too_large(self) -> InvalidStatement:
        """An expression has more levels than Python's stack."""
        return self.invalid(
            0,
            "Statement is too large to parse",
            cause="too many nested expressions in a statement",
            action="a long list of conditions on one value is shorter as IN (...)",
        )

    def excerpt(self, node: exp.Expr) -> str:
        """An expression as the user wrote it; a made-up one by its name."""
        metas = [n.meta for n in node.walk() if "end" in n.meta]
        if not metas:
            return node.name
        start, end = min(m["start"] for m in metas), max(m["end"] for m in metas) + 1
        text = self.text[start:end]
        return text + ")" * (text.count("(") - text.count(")"))

    def unknown(
        self, at: int, kind: str, name: str, known: Iterable[str], *, of: str = ""
    ) -> InvalidStatement:
        """`name` is not a known `kind` (of `of`); the message names the nearest one or all."""
        names = sorted(set(known))
        hint = did_you_mean(name, names)
        if not hint and 0 < len(names) <= 30:
            hint = f"known are: {', '.join(names)}"
        owner = f" of {of}" if of else ""
        return self.invalid(at, f"unknown {kind} {name}{owner}", action=hint)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The question "did you mean X?" with the nearest known name, or "" when nothing is near."""
    found = nearest(name, known)
    if found is None:
        return ""
    if found != name and found.upper() == name.upper():
        return f"did you mean `{found}`? Names in backquotes keep their case, others are upper-case"
    return f"did you mean {found}?"


def resolve_identifier(identifier: exp.Identifier) -> str:
    """ksqlDB's rule: unquoted names are upper-case, quoted ones keep their case."""
    name = str(identifier.this)
    return name if identifier.args.get("quoted") else name.upper()


def start_of(node: exp.Expr) -> int:
    """The character offset where an expression starts (the least that is known of its parts)."""
    starts = [n.meta["start"] for n in node.walk() if "start" in n.meta]
    return min(starts, default=0)
