"""The parser's place among the tokens of a file, and its errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn, TypeVar

from holdfast.sql.parse.clauses import Name
from holdfast.sql.parse.dialect import RESERVED, Kind, Token
from holdfast.sql.parse.script import did_you_mean
from holdfast.sql.parse.unsupported import Later
from holdfast.types.columns.schema import SqlType

__all__ = ["Cursor", "MisplacedError"]

T = TypeVar("T")
_DIGITS_MAX = 1_000


class MisplacedError(Exception):
    """An error at a character offset, on its way to the border, `holdfast.sql.parse.text`."""

    def __init__(
        self, message: str, at: int, *, unsupported: bool = False, near: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.at = at
        self.unsupported = unsupported
        self.near = near


class Cursor:
    """Reads tokens from left to right; `types` are the named types known here."""

    def __init__(self, tokens: Sequence[Token], types: Mapping[str, SqlType]) -> None:
        self._tokens = tokens
        self._index = 0
        self.types = types

    @property
    def token(self) -> Token:
        """The token that comes next."""
        return self._tokens[self._index]

    @property
    def behind(self) -> int:
        """The end of the token before."""
        return self._tokens[self._index - 1].end if self._index else 0

    def advance(self) -> Token:
        """The next token, which is then behind; the END stays."""
        token = self.token
        if token.kind is not Kind.END:
            self._index += 1
        return token

    def at(self, *texts: str) -> bool:
        """Whether these key words or symbols come next."""
        ahead = self._tokens[self._index : self._index + len(texts)]
        return tuple(t.upper for t in ahead) == texts

    def ahead(self, count: int) -> Token:
        """The token `count` places further on, or the END."""
        return self._tokens[min(self._index + count, len(self._tokens) - 1)]

    def ends(self, count: int) -> bool:
        """Whether the statement has its end `count` places further on."""
        return self.ahead(count).upper == ";" or self.ahead(count).kind is Kind.END

    def take(self, *texts: str) -> bool:
        """Step over these key words or symbols, if they come next."""
        there = self.at(*texts)
        if there:
            self._index += len(texts)
        return there

    def take_kind(self, kind: Kind) -> Token | None:
        """Step over a token of this kind, if it comes next."""
        return self.advance() if self.token.kind is kind else None

    def expect(self, *texts: str) -> None:
        """Step over these, or a syntax error."""
        if not self.take(*texts):
            self.fail(f"expected {' '.join(texts)} but found {self.found()}")

    def found(self) -> str:
        """The next token for messages."""
        token = self.token
        return "the end of the file" if token.kind is Kind.END else f'"{token.text}"'

    def fail(self, message: str, *, at: Token | None = None) -> NoReturn:
        """A syntax error at the next token; what follows a line break is what to do."""
        token = at or self.token
        near = "<EOF>" if token.kind is Kind.END else token.text
        place = self.behind if token.kind is Kind.END else token.start
        raise MisplacedError(message, place, near=near)

    def fail_expected(self, wanted: str, known: Sequence[str]) -> NoReturn:
        """A syntax error that names the nearest of the words that could stand here."""
        hint = did_you_mean(self.token.text, known) if self.token.text else ""
        self.fail(f"expected {wanted} but found {self.found()}\n{hint}")

    def fail_unclosed(self) -> NoReturn:
        """A syntax error: a closing parenthesis should come next."""
        token = "<EOF>" if self.token.kind is Kind.END else self.token.text
        self.fail(f"missing ')' at '{token}': a closing parenthesis is missing")

    def refuse(self, message: str, at: int) -> NoReturn:
        """The syntax is right and the meaning is not."""
        raise MisplacedError(message, at)

    def refuse_later(self, later: Later, at: int) -> NoReturn:
        """ksqlDB's, but not supported."""
        raise MisplacedError(f"{later.fact}\n{later.action}", at, unsupported=True)

    def at_name(self) -> bool:
        """Whether a name comes next: quoted, or a word that is not reserved."""
        token = self.token
        return token.kind is Kind.QUOTED or (
            token.kind is Kind.WORD and token.upper not in RESERVED
        )

    def name(self, what: str) -> Name:
        """A name, resolved: upper-case unless it is quoted."""
        token = self.token
        if not self.at_name():
            self._no_name(what, token)
        self.advance()
        return Name(token.text if token.kind is Kind.QUOTED else token.text.upper(), token.start)

    def _no_name(self, what: str, token: Token) -> NoReturn:
        if token.kind is not Kind.WORD:
            self.fail(f"expected {what} but found {self.found()}")
        self.fail(
            f"expected {what}, but {self.found()} is a reserved keyword and can't be used as an "
            f"identifier\nwrite it in backquotes: `{token.upper}`"
        )

    def string(self, what: str) -> str:
        """A quoted string's text."""
        token = self.take_kind(Kind.STRING)
        if token is None:
            self.fail(f"{what}; expected a quoted string but found {self.found()}")
        return token.text

    def whole_number(self, what: str) -> int:
        """A number without sign, point or exponent."""
        token = self.take_kind(Kind.INTEGER)
        if token is None:
            self.fail(f"{what} must be a whole number, not {self.found()}")
        return self.integer(token, token.text)

    def integer(self, token: Token, digits: str) -> int:
        """The value of digits, perhaps with a sign; Python itself reads no more than 4,300."""
        if len(digits) > _DIGITS_MAX:
            self.refuse(f"Invalid numeric literal of {len(digits)} digits", token.start)
        return int(digits)

    def listed(self, item: Callable[[], T]) -> list[T]:
        """One or more items with commas between them."""
        items = [item()]
        while self.take(","):
            items.append(item())
        return items
