"""ksqlDB's lexical rules and expression grammar as a sqlglot dialect.

sqlglot's own parser does the expressions; its tables are cut down to what ksqlDB's grammar has,
so that other dialects' syntax is refused instead of being guessed at.  Functions stay plain
names (`exp.Anonymous`): what they mean is the function catalog's business.  Types are ksqlDB's
and are kept as `SqlType` under `SQL_TYPE` in a cast's meta.
"""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import Token, TokenType, exp
from sqlglot import parser as sqlglot_parser
from sqlglot import tokens as sqlglot_tokens
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError

from holdfast.sql.type_rules import simple_type
from holdfast.types.schema import STRING, Base, Column, SqlType

__all__ = ["SQL_TYPE", "ExpressionParser", "KsqlDialect", "MisplacedError"]

SQL_TYPE = "sql_type"  # key in the meta of exp.Cast
_DECIMAL_PRECISION_MAX = 38
_RANGES = (TokenType.BETWEEN, TokenType.IN, TokenType.IS, TokenType.LIKE)
_BASE = sqlglot_parser.Parser


class MisplacedError(ParseError):
    """A syntax error at a character offset, on its way to the statement parser's border."""

    def __init__(self, message: str, at: int, *, unsupported: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.at = at
        self.unsupported = unsupported


def _field(parser: Any, this: exp.Expr, field: exp.Expr | None) -> exp.Expr:
    if not isinstance(field, (exp.Column, exp.Identifier, exp.Star)):
        parser.raise_error("a field name must follow ->")
    node: exp.Expr = parser.expression(exp.Dot(this=this, expression=field))
    return node


def _lambda(parser: Any, names: list[exp.Expr]) -> exp.Expr:
    body = parser._parse_disjunction()
    node: exp.Expr = parser.expression(exp.Lambda(this=body, expressions=names))
    return node


def _boolean(value: bool) -> Any:
    return lambda parser, token: parser.expression(exp.Boolean(this=value), token)


def _case(parser: Any) -> exp.Expr:
    start = parser._prev.start
    node: exp.Expr = parser._parse_case()
    return _placed(node, start, parser._prev.end)


def _placed(node: exp.Expr, start: int, end: int) -> exp.Expr:
    node.meta.update(start=start, end=end)
    return node


class ExpressionParser(_BASE):
    """Expressions and types; `holdfast.sql.parse` adds the statements."""

    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    NO_PAREN_FUNCTIONS: ClassVar[dict[Any, Any]] = {}
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {"CASE": _case}
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {"CAST": lambda parser: parser._parse_cast(False)}
    COLUMN_OPERATORS: ClassVar[dict[TokenType, Any]] = {
        TokenType.DOT: None,
        TokenType.ARROW: _field,
    }
    LAMBDAS: ClassVar[dict[TokenType, Any]] = {TokenType.FARROW: _lambda}
    RANGE_PARSERS: ClassVar[dict[TokenType, Any]] = {k: _BASE.RANGE_PARSERS[k] for k in _RANGES}
    PRIMARY_PARSERS: ClassVar[dict[TokenType, Any]] = {
        **_BASE.PRIMARY_PARSERS,
        TokenType.NULL: lambda parser, token: parser.expression(exp.Null(), token),
        TokenType.TRUE: _boolean(True),
        TokenType.FALSE: _boolean(False),
    }

    def raise_error(self, message: str, token: Token | None = None) -> None:
        at_end = self._index >= self._tokens_size
        place = token or (self._prev if at_end else self._curr)
        if message.startswith("Required keyword"):
            message = "an expression is missing or incomplete"
        elif message.startswith(("Expecting )", "Expected )")):
            message = "a closing parenthesis is missing"
        raise MisplacedError(message, place.end + 1 if at_end and not token else place.start)

    def _parse_type(
        self, parse_interval: bool = True, fallback_to_identifier: bool = False
    ) -> exp.Expr | None:
        # No typed literals and no intervals: DATE, TIMESTAMP and INTERVAL are ordinary names.
        return self._parse_column()

    def _parse_cast(self, strict: bool, safe: bool | None = None) -> exp.Expr:
        start = self._tokens[self._index - 2].start  # CAST and ( are behind
        this = self._parse_assignment()
        if this is None or not self._match(TokenType.ALIAS):
            self.raise_error("CAST is written CAST(expression AS TYPE)")
        node = self.expression(exp.Cast(this=this, to=exp.DType.UNKNOWN.into_expr()))
        node.meta[SQL_TYPE] = self._parse_sql_type()
        return _placed(node, start, self._curr.end)

    def _parse_bracket(self, this: exp.Expr | None = None) -> exp.Expr | None:
        start = self._prev.start
        node = super()._parse_bracket(this)
        if isinstance(node, exp.Array) and "start" not in node.meta:
            _placed(node, start, self._prev.end)
        return node

    def _parse_sql_type(self) -> SqlType:
        """A ksqlDB type: base types and their synonyms, DECIMAL(p, s), ARRAY, MAP, STRUCT."""
        token = self._curr
        name = token.text.upper()
        self._advance()
        if name == "DECIMAL":
            result = self._parse_decimal(token)
        elif name == "ARRAY":
            self._expect(TokenType.LT, "<")
            result = SqlType(Base.ARRAY, element=self._parse_sql_type())
            self._expect_gt()
        elif name == "MAP":
            result = self._parse_map_type()
        elif name == "STRUCT":
            result = self._parse_struct_type()
        else:
            found = simple_type(name)
            if isinstance(found, str):
                self.raise_error(found, token)
            assert isinstance(found, SqlType)
            result = found
            self._skip_length()
        while self._match_text_seq("ARRAY"):  # the grammar also has the postfix form
            result = SqlType(Base.ARRAY, element=result)
        return result

    def _parse_decimal(self, token: Token) -> SqlType:
        self._expect(TokenType.L_PAREN, "(")
        precision = self._parse_whole_number("DECIMAL's precision")
        self._expect(TokenType.COMMA, ",")
        scale = self._parse_whole_number("DECIMAL's scale")
        self._expect(TokenType.R_PAREN, ")")
        if not 1 <= precision <= _DECIMAL_PRECISION_MAX or scale > precision:
            self.raise_error(
                f"DECIMAL({precision}, {scale}) must have a precision of 1 to "
                f"{_DECIMAL_PRECISION_MAX} and a scale no greater than it",
                token,
            )
        return SqlType(Base.DECIMAL, precision=precision, scale=scale)

    def _parse_map_type(self) -> SqlType:
        self._expect(TokenType.LT, "<")
        key_token = self._curr
        if self._parse_sql_type() != STRING:
            self.raise_error("the keys of a MAP must be STRING", key_token)
        self._expect(TokenType.COMMA, ",")
        value = self._parse_sql_type()
        self._expect_gt()
        return SqlType(Base.MAP, element=value)

    def _parse_struct_type(self) -> SqlType:
        self._expect(TokenType.LT, "<")
        fields: list[Column] = []
        while not fields or self._match(TokenType.COMMA):
            token = self._curr
            name = self._parse_resolved_name("a field name")
            if any(f.name == name for f in fields):
                self.raise_error(f"the field {name} appears twice in STRUCT", token)
            fields.append(Column(name, self._parse_sql_type()))
        self._expect_gt()
        return SqlType(Base.STRUCT, fields=tuple(fields))

    def _skip_length(self) -> None:
        # VARCHAR(20): ksqlDB parses the length and ignores it.
        if self._match(TokenType.L_PAREN):
            self._parse_whole_number("the length")
            self._expect(TokenType.R_PAREN, ")")

    def _expect_gt(self) -> None:
        self._expect(TokenType.GT, ">")

    def _expect(self, token_type: TokenType, text: str) -> None:
        if not self._match(token_type):
            self.raise_error(f"expected {text} but found {self._found()}")

    def _found(self) -> str:
        if self._index >= self._tokens_size:
            return "the end of the file"
        return f'"{self._curr.text}"'

    def _parse_whole_number(self, what: str) -> int:
        token = self._curr
        if token.token_type is not TokenType.NUMBER or not token.text.isdigit():
            self.raise_error(f"{what} must be a whole number, not {self._found()}")
        self._advance()
        return int(token.text)

    def _parse_resolved_name(self, what: str) -> str:
        token = self._curr
        usable = token.token_type is TokenType.IDENTIFIER or (
            token.text[:1].isalpha() or token.text[:1] == "_"
        )
        if self._index >= self._tokens_size or token.token_type is TokenType.STRING or not usable:
            self.raise_error(f"expected {what} but found {self._found()}")
        self._advance()
        return token.text if token.token_type is TokenType.IDENTIFIER else token.text.upper()


class KsqlDialect(Dialect):
    """Backquotes and double quotes name things, single quotes make strings ('' is a quote)."""

    class Tokenizer(sqlglot_tokens.Tokenizer):
        """The words; no hints and no templates, which other dialects have."""

        IDENTIFIERS: ClassVar[list[Any]] = ["`", '"']
        QUOTES: ClassVar[list[Any]] = ["'"]
        STRING_ESCAPES: ClassVar[list[str]] = ["'"]
        COMMENTS: ClassVar[list[Any]] = ["--", ("/*", "*/")]
        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            text: kind
            for text, kind in sqlglot_tokens.Tokenizer.KEYWORDS.items()
            if text not in ("/*+", "{{", "}}", "{%", "%}", "{{+", "-}}", "{%+", "{%-", "-%}")
        }

    Parser = ExpressionParser
