"""The grammar of expressions → sqlglot's tree, every node with its place in the file.

Only the tree is sqlglot's: what stands in it is what ksqlDB's grammar has.  Functions stay plain
names (`exp.Anonymous`), parentheses leave no node, and a cast's `SqlType` is in its meta.  `start`
and `end` (inclusive) in each node's meta are character offsets.
"""

from __future__ import annotations

import math
from typing import TypeVar

from sqlglot import exp

from holdfast.sql.parse.dialect import SQL_TYPE, Kind, Token
from holdfast.sql.parse.types import TypeParser
from holdfast.sql.parse.units import UNITS_MS

__all__ = ["ExpressionParser"]

Node = TypeVar("Node", bound=exp.Expr)
_COMPARISONS: dict[str, type[exp.Binary]] = {
    "=": exp.EQ, "<>": exp.NEQ, "!=": exp.NEQ,
    "<": exp.LT, "<=": exp.LTE, ">": exp.GT, ">=": exp.GTE,
}  # fmt: skip
_SUMS: dict[str, type[exp.Binary]] = {"+": exp.Add, "-": exp.Sub}
_PRODUCTS: dict[str, type[exp.Binary]] = {"*": exp.Mul, "/": exp.Div, "%": exp.Mod}
_BIGINT_MAX = 2**63 - 1
_NUMBERS = (Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT)


class ExpressionParser(TypeParser):
    """Expressions, by descent: OR, AND, NOT, predicates, ||, sums, products, signs, primaries."""

    def parse_expression(self, what: str = "an expression") -> exp.Expr:
        """An expression; `what` names it in the error when there is none."""
        return self._joined_by("OR", exp.Or, what)

    def _joined_by(self, word: str, kind: type[exp.Binary], what: str) -> exp.Expr:
        start = self.token.start
        left = self._joined_by("AND", exp.And, what) if word == "OR" else self._negated(what)
        while self.take(word):
            right = (
                self._joined_by("AND", exp.And, "a condition")
                if word == "OR"
                else self._negated("a condition")
            )
            left = self._placed(kind(this=left, expression=right), start)
        return left

    def _negated(self, what: str) -> exp.Expr:
        start = self.token.start
        if self.take("NOT"):
            return self._placed(exp.Not(this=self._negated("a condition")), start)
        return self._predicated(what)

    def _predicated(self, what: str) -> exp.Expr:
        start = self.token.start
        left = self.parse_value(what)
        if kind := _COMPARISONS.get(self.token.upper):
            self.advance()
            return self._placed(kind(this=left, expression=self.parse_value()), start)
        if self.take("IS"):
            return self._is(left, start)
        negated = self.at("NOT") and self.take("NOT")
        node = self._range(left, start)
        if node is None:
            if negated:
                self.fail_expected("BETWEEN, IN or LIKE after NOT", ["BETWEEN", "IN", "LIKE"])
            return left
        return self._placed(exp.Not(this=node), start) if negated else node

    def _is(self, left: exp.Expr, start: int) -> exp.Expr:
        negated = self.take("NOT")
        if self.take("DISTINCT", "FROM"):
            kind = exp.NullSafeEQ if negated else exp.NullSafeNEQ
            return self._placed(kind(this=left, expression=self.parse_value()), start)
        if not self.take("NULL"):
            self.fail("IS is followed by [NOT] NULL or [NOT] DISTINCT FROM")
        node = self._placed(exp.Is(this=left, expression=exp.Null()), start)
        return self._placed(exp.Not(this=node), start) if negated else node

    def _range(self, left: exp.Expr, start: int) -> exp.Expr | None:
        if self.take("BETWEEN"):
            low = self.parse_value()
            self.expect("AND")
            return self._placed(exp.Between(this=left, low=low, high=self.parse_value()), start)
        if self.take("IN"):
            self.expect("(")
            if self.at("SELECT"):
                self.fail("IN takes a list of expressions\njoin the other stream or table instead")
            items = self.listed(self.parse_expression)
            self.expect(")")
            return self._placed(exp.In(this=left, expressions=items), start)
        return self._like(left, start) if self.take("LIKE") else None

    def _like(self, left: exp.Expr, start: int) -> exp.Expr:
        node: exp.Expr = self._placed(exp.Like(this=left, expression=self.parse_value()), start)
        if not self.take("ESCAPE"):
            return node
        at = self.token.start
        escape = self.string("ESCAPE takes one character")
        if len(escape) != 1:
            self.refuse(
                f"ESCAPE takes one character: Expected single character escape but got: {escape}",
                at,
            )
        return self._placed(exp.Escape(this=node, expression=exp.Literal.string(escape)), start)

    def parse_value(self, what: str = "an expression") -> exp.Expr:
        """An expression without predicates, AND, OR and NOT."""
        start = self.token.start
        left = self._sum(what)
        while self.take("||"):
            left = self._placed(exp.DPipe(this=left, expression=self._sum(what)), start)
        return left

    def _sum(self, what: str) -> exp.Expr:
        start = self.token.start
        left = self._product(what)
        while kind := _SUMS.get(self.token.upper):
            self.advance()
            left = self._placed(kind(this=left, expression=self._product("an operand")), start)
        return left

    def _product(self, what: str) -> exp.Expr:
        start = self.token.start
        left = self._signed(what)
        while kind := _PRODUCTS.get(self.token.upper):
            self.advance()
            left = self._placed(kind(this=left, expression=self._signed("an operand")), start)
        return left

    def _signed(self, what: str) -> exp.Expr:
        start = self.token.start
        if self.take("+"):
            return self._signed("an operand")
        if not self.take("-"):
            return self._zoned(self.parse_primary(what))
        if self.token.kind in _NUMBERS:
            number = self._number(self.advance(), start, negative=True)
            return self._zoned(self._suffixed(number, start))
        return self._placed(exp.Neg(this=self._signed("an operand")), start)

    def _zoned(self, node: exp.Expr) -> exp.Expr:
        if self.at("AT", "TIME", "ZONE"):
            self.refuse("AT TIME ZONE is not supported\nuse CONVERT_TZ", self.token.start)
        return node

    def parse_primary(self, what: str = "an expression") -> exp.Expr:
        """A literal, a column, a call, CASE, CAST or a constructor, with its [index] and ->field.

        A `->*` is left for the SELECT list.
        """
        start = self.token.start
        return self._suffixed(self._bare(what), start)

    def _suffixed(self, node: exp.Expr, start: int) -> exp.Expr:
        while True:
            if self.take("["):
                index = self.parse_value("an index or a key")
                self.expect("]")
                node = self._placed(exp.Bracket(this=node, expressions=[index]), start)
            elif self.at("->") and not self.at("->", "*"):
                self.advance()
                field = self._identifier("a field name after ->")
                node = self._placed(exp.Dot(this=node, expression=field), start)
            else:
                return node

    def _bare(self, what: str) -> exp.Expr:
        token = self.token
        if token.kind is Kind.STRING:
            self.advance()
            return self._placed(exp.Literal.string(token.text), token.start)
        if token.kind in _NUMBERS:
            return self._number(self.advance(), token.start, negative=False)
        if self.take("("):
            node = self.parse_expression()
            self._close()
            return node
        special = self._key_word(token.start)
        if special is not None:
            return special
        if (self.at("LEFT", "(") or self.at("RIGHT", "(")) and token.kind is Kind.WORD:
            self.advance()  # functions that ksqlDB's grammar has no place for
            name = self._placed(exp.Identifier(this=token.text, quoted=False), token.start)
            self.expect("(")
            return self._call(name)
        return self._named(what)

    def _key_word(self, start: int) -> exp.Expr | None:
        node: exp.Expr | None = None
        if self.take("NULL"):
            node = self._placed(exp.Null(), start)
        elif self.at("TRUE") or self.at("FALSE"):
            node = self._placed(exp.Boolean(this=self.advance().upper == "TRUE"), start)
        elif self.take("CASE"):
            node = self._case(start)
        elif self.take("CAST"):
            node = self._cast(start)
        elif self.take("ARRAY", "["):
            node = self._array(start)
        elif self.at("MAP", "(") or self.at("STRUCT", "("):
            node = self._constructor(self.advance())
        return node

    def _close(self) -> None:
        if not self.take(")"):
            self.fail_unclosed()

    def _number(self, token: Token, start: int, *, negative: bool) -> exp.Expr:
        digits = f"-{token.text}" if negative else token.text
        if token.kind is Kind.INTEGER and not (
            -_BIGINT_MAX - 1 <= self.integer(token, digits) <= _BIGINT_MAX
        ):
            self.refuse(f"Invalid numeric literal: {digits}", start)
        if token.kind is Kind.FLOAT and math.isinf(float(digits)):
            self.refuse(f"Number overflows DOUBLE: {digits}", start)
        node = self._placed(exp.Literal.number(token.text), token.start)
        return self._placed(exp.Neg(this=node), start) if negative else node

    def _case(self, start: int) -> exp.Expr:
        operand = None if self.at("WHEN") else self.parse_value("WHEN or an expression")
        branches: list[exp.If] = []
        while self.at("WHEN"):
            at = self.advance().start
            condition = self.parse_expression("a condition")
            self.expect("THEN")
            result = self.parse_expression()
            branches.append(self._placed(exp.If(this=condition, true=result), at))
        if not branches:
            self.fail(f"CASE needs at least one WHEN, but found {self.found()}")
        default = self.parse_expression() if self.take("ELSE") else None
        self.expect("END")
        return self._placed(exp.Case(this=operand, ifs=branches, default=default), start)

    def _cast(self, start: int) -> exp.Expr:
        self.expect("(")
        this = self.parse_expression()
        if not self.take("AS"):
            self.fail("CAST is written CAST(expression AS TYPE)")
        node = exp.Cast(this=this, to=exp.DType.UNKNOWN.into_expr())
        node.meta[SQL_TYPE] = self.parse_type()
        self._close()
        return self._placed(node, start)

    def _array(self, start: int) -> exp.Expr:
        items = [] if self.at("]") else self.listed(self.parse_expression)
        self.expect("]")
        return self._placed(exp.Array(expressions=items), start)

    def _constructor(self, name: Token) -> exp.Expr:
        self.expect("(")
        pair = self._entry if name.upper == "MAP" else self._field
        pairs = [] if self.at(")") else self.listed(pair)
        self._close()
        return self._placed(exp.Anonymous(this=name.upper, expressions=pairs), name.start)

    def _entry(self) -> exp.Expr:
        start = self.token.start
        key = self.parse_expression()
        self._assign("MAP is written MAP(key := value, ...)")
        return self._placed(exp.PropertyEQ(this=key, expression=self.parse_expression()), start)

    def _field(self) -> exp.Expr:
        start = self.token.start
        name = self._identifier("a field name")
        self._assign("STRUCT is written STRUCT(name := value, ...)")
        return self._placed(exp.PropertyEQ(this=name, expression=self.parse_expression()), start)

    def _assign(self, usage: str) -> None:
        if not self.take(":="):
            self.fail(f"expected := but found {self.found()}\n{usage}")

    def _identifier(self, what: str) -> exp.Identifier:
        token = self.token
        self.name(what)
        quoted = token.kind is Kind.QUOTED
        return self._placed(exp.Identifier(this=token.text, quoted=quoted), token.start)

    def _named(self, what: str) -> exp.Expr:
        token = self.token
        identifier = self._identifier(what)
        if self.token.kind is Kind.STRING:
            self.refuse(f"Unknown type: {token.text.upper()}\nuse CAST('...' AS TYPE)", token.start)
        if self.take("("):
            return self._call(identifier)
        if not self.at(".") or self.at(".", "*"):
            return self._placed(exp.Column(this=identifier), token.start)
        self.advance()
        column = self._identifier("a column name")
        if self.at("."):
            self.fail("a column is written name or source.name\nfields use ->")
        return self._placed(exp.Column(this=column, table=identifier), token.start)

    def _call(self, name: exp.Identifier) -> exp.Expr:
        if self.take("*"):
            arguments: list[exp.Expr] = [self._placed(exp.Star(), self.behind - 1)]
        else:
            arguments = [] if self.at(")") else self.listed(lambda: self._argument(name))
        self._close()
        node = exp.Anonymous(this=name.this, expressions=arguments)
        return self._placed(node, name.meta["start"])

    def _argument(self, name: exp.Identifier) -> exp.Expr:
        token = self.token
        if token.upper == "DISTINCT":
            self.refuse(
                f"{name.this.upper()} takes no DISTINCT\ndistinct values are what "
                "COUNT_DISTINCT(x), COLLECT_SET(x) and TOPKDISTINCT(x, k) see",
                name.meta["start"],
            )
        if token.kind is Kind.WORD and token.upper.removesuffix("S") in UNITS_MS:
            following = self.ahead(1).upper
            if following in (",", ")"):
                self.advance()
                return self._unit(token)
        return self._lambda() if self._at_lambda() else self.parse_expression()

    def _unit(self, token: Token) -> exp.Expr:
        identifier = self._placed(exp.Identifier(this=token.text, quoted=False), token.start)
        return self._placed(exp.Column(this=identifier), token.start)

    def _at_lambda(self) -> bool:
        """Whether `x =>` or `(x, y) =>` comes next."""
        if not self.at("("):
            return self.at_name() and self.ahead(1).upper == "=>"
        end = self._index + 1
        while self._tokens[end].kind in (Kind.WORD, Kind.QUOTED) or self._tokens[end].upper == ",":
            end += 1
        return self._tokens[end].upper == ")" and self._tokens[end + 1].upper == "=>"

    def _lambda(self) -> exp.Expr:
        start = self.token.start
        if self.take("("):
            names = self.listed(lambda: self._identifier("a parameter's name"))
            self._close()
        else:
            names = [self._identifier("a parameter's name")]
        self.expect("=>")
        return self._placed(exp.Lambda(this=self.parse_expression(), expressions=names), start)

    def _placed(self, node: Node, start: int) -> Node:
        node.meta.update(start=start, end=self.behind - 1)
        return node
