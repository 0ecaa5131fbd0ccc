"""Variables: DEFINE name = 'value', and ${name} wherever a name or a literal may stand.

Their names do not tell A from a; they are kept in lower case.

ksqlDB puts values in as text.  Here they go in among the tokens, which keeps every place in the
file true: inside a string as they are, elsewhere as the one name or literal they must be.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from holdfast.sql.parse.cursor import MisplacedError
from holdfast.sql.parse.dialect import Kind, Token, UnclosedError, tokenize
from holdfast.sql.parse.script import did_you_mean

__all__ = ["Substituted"]

_IN_STRING = re.compile(r"(\$?)\$\{([^{}]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_@]*")
_LITERALS = (Kind.STRING, Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT)


class Substituted:
    """A statement's tokens with the variables' values in their places; None: nothing is put in."""

    def __init__(
        self, text: str, tokens: Sequence[Token], variables: Mapping[str, str] | None
    ) -> None:
        self._text = text
        self._variables = variables or {}
        self._changes: list[tuple[Token, str]] = []
        self.tokens = list(tokens)
        if variables is not None:
            self.tokens = [new for token in tokens for new in self._value(token)]

    def written(self, start: int, end: int) -> str:
        """The text from `start` to `end` with the values put in."""
        parts: list[str] = []
        at = start
        for token, value in self._changes:
            if start <= token.start and token.end <= end:
                parts += [self._text[at : token.start], value]
                at = token.end
        return "".join(parts) + self._text[at:end]

    def _value(self, token: Token) -> Iterator[Token]:
        if token.kind is Kind.STRING:
            text = _IN_STRING.sub(self._inside, token.text)
            if text != token.text:
                quoted = text.replace("'", "''")
                self._changes.append((token, f"'{quoted}'"))
            yield replace(token, text=text)
        elif token.kind is Kind.VARIABLE:
            value = self._known(token)
            self._changes.append((token, value))
            for part in self._parts(token, value):
                yield replace(part, start=token.start, end=token.end)
        else:
            yield token

    def _inside(self, found: re.Match[str]) -> str:
        """`${name}` in a string; `$${name}` is the text ${name}, and so is an unknown one."""
        if found[1]:
            return found[0][1:]
        return self._variables.get(found[2].lower(), found[0])

    def _known(self, token: Token) -> str:
        if token.text.lower() not in self._variables:
            hint = did_you_mean(token.text, self._variables)
            raise MisplacedError(
                f"Illegal argument: the variable {token.text} is not defined. "
                f"Got: '${{{token.text}}}'\n{hint or 'write DEFINE name = ... before it'}",
                token.start,
            )
        return self._variables[token.text.lower()]

    def _parts(self, token: Token, value: str) -> list[Token]:
        try:
            parts = tokenize(value)[:-1]
        except UnclosedError:
            parts = []
        signed = parts[1:] if parts and parts[0].upper == "-" else parts
        if len(signed) == 1 and self._fits(signed[0], signed is parts):
            return parts
        raise MisplacedError(
            f"Illegal argument: the value of ${{{token.text}}} must be one name or one literal "
            f"here. Got: '{value}'\na string is defined with its quotes: "
            f"DEFINE {token.text} = '''text'''",
            token.start,
        )

    def _fits(self, token: Token, unsigned: bool) -> bool:
        if token.kind in (Kind.WORD, Kind.QUOTED):
            return unsigned and _NAME.fullmatch(token.text) is not None
        return token.kind in _LITERALS and (unsigned or token.kind is not Kind.STRING)
