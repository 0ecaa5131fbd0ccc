"""The grammar of CREATE, INSERT, DROP, ALTER and ASSERT: what they share, and each of them."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from holdfast.sql.parse.clauses import ColumnDefinition, Name, Property, Select
from holdfast.sql.parse.dialect import Kind, Token
from holdfast.sql.parse.select import SelectParser
from holdfast.sql.parse.statements import (
    AlterSource,
    CreateAs,
    CreateSource,
    CreateType,
    DropSource,
    DropType,
    InsertSelect,
    InsertValues,
)
from holdfast.sql.parse.unsupported import STATEMENTS
from holdfast.types.columns.schema import STRING, Base, Column, SqlType

__all__ = ["SourceParser"]

_HEADERS = SqlType(
    Base.ARRAY,
    element=SqlType(
        Base.STRUCT, fields=(Column("KEY", STRING), Column("VALUE", SqlType(Base.BYTES)))
    ),
)


class SourceParser(SelectParser):
    """Statements about streams, tables and types.

    `written` gives the text between two offsets, with the values of variables put in.
    """

    written: Callable[[int, int], str]

    def parse_create(self) -> CreateSource | CreateAs | CreateType:
        """CREATE STREAM, TABLE, … AS SELECT or TYPE."""
        start = self.advance()
        or_replace = self.take("OR", "REPLACE")
        if self.at("CONNECTOR") or self.at("SINK") or self.at("SOURCE", "CONNECTOR"):
            self.refuse_later(STATEMENTS["CREATE CONNECTOR"], self.token.start)
        read_only = self.take("SOURCE")
        if self.at("TYPE") and not or_replace and not read_only:
            return self._create_type(start)
        kind = self._kind("CREATE")
        if_not_exists = self.take("IF", "NOT", "EXISTS")
        name = self.source_name(f"the name of the {kind.lower()}")
        columns = self._columns()
        properties = self._with()
        if not self.at("AS"):
            at = start.start
            return CreateSource(
                kind, name, columns, properties, if_not_exists, at, or_replace, read_only
            )
        if columns:
            self.fail(
                f"CREATE {kind} ... AS SELECT takes its columns from the SELECT\n"
                "remove the column list, or give it to the source's own CREATE statement"
            )
        if read_only:
            self.fail(f"CREATE SOURCE {kind} reads a topic and so has no AS SELECT")
        self.advance()
        select = self._persistent_select(kind)
        text = self.written(start.start, self.behind)
        return CreateAs(
            kind, name, properties, select, if_not_exists, start.start, text, or_replace
        )

    def _persistent_select(self, kind: str) -> Select:
        select = self.parse_select()
        self._refuse_order(f"CREATE {kind} AS SELECT")
        if self.at("LIMIT"):
            self.refuse(
                f"CREATE {kind} AS SELECT statements don't support LIMIT clause.\nremove it",
                self.token.start,
            )
        return select

    def _refuse_order(self, statement: str) -> None:
        if self.at("ORDER", "BY"):
            self.refuse(
                f"{statement} has no ORDER BY: its rows have no order, they change one by one.\n"
                "order them when you read them (SELECT ... ORDER BY ... LIMIT n, from a query "
                "server); TOPK(column, n) keeps the largest values of a group",
                self.token.start,
            )

    def _create_type(self, start: Token) -> CreateType:
        self.expect("TYPE")
        if_not_exists = self.take("IF", "NOT", "EXISTS")
        name = self.name("the name of the type")
        self.expect("AS")
        return CreateType(name, self.parse_type(), if_not_exists, start.start)

    def parse_insert(self) -> InsertSelect | InsertValues:
        """INSERT INTO … SELECT, or VALUES."""
        start = self.advance()
        self.expect("INTO")
        target = self.source_name("the name of the stream or table")
        if self.at("("):
            names = self._names()
            self.expect("VALUES")
            return InsertValues(target, names, self._values(), start.start)
        if self.take("VALUES"):
            return InsertValues(target, (), self._values(), start.start)
        properties = self._with()
        if not self.at("SELECT"):
            self.fail_expected("VALUES or SELECT", ["VALUES", "SELECT"])
        select = self.parse_select()
        self._refuse_order("INSERT INTO ... SELECT")
        if self.at("LIMIT"):
            self.fail("LIMIT has no place in a query that keeps running\nremove it")
        text = self.written(start.start, self.behind)
        return InsertSelect(target, properties, select, start.start, text)

    def _names(self) -> tuple[Name, ...]:
        self.expect("(")
        names = self.listed(lambda: self.name("a column name"))
        self.expect(")")
        return tuple(names)

    def _values(self) -> tuple[exp.Expr, ...]:
        self.expect("(")
        values = [] if self.at(")") else self.listed(self.parse_value)
        self.expect(")")
        return tuple(values)

    def parse_drop(self) -> DropSource | DropType:
        """DROP STREAM, TABLE or TYPE."""
        start = self.advance()
        if self.at("CONNECTOR"):
            self.refuse_later(STATEMENTS["CREATE CONNECTOR"], self.token.start)
        if self.take("TYPE"):
            if_exists = self.take("IF", "EXISTS")
            return DropType(self.name("the name of the type"), if_exists, start.start)
        kind = self._kind("DROP")
        if_exists = self.take("IF", "EXISTS")
        name = self.source_name(f"the name of the {kind.lower()}")
        delete_topic = self.take("DELETE", "TOPIC")
        return DropSource(kind, name, if_exists, delete_topic, start.start)

    def parse_alter(self) -> AlterSource:
        """ALTER STREAM / TABLE … ADD COLUMN."""
        start = self.advance()
        if self.at("SYSTEM"):
            self.refuse_later(STATEMENTS["ALTER SYSTEM"], start.start)
        kind = self._kind("ALTER")
        name = self.source_name(f"the name of the {kind.lower()}")
        return AlterSource(kind, name, tuple(self.listed(self._added)), start.start)

    def _added(self) -> ColumnDefinition:
        self.expect("ADD")
        if self.at("COLUMN") and not self.ends(2) and self.ahead(2).upper != ",":
            self.advance()
        return ColumnDefinition(self.name("a column name"), self.parse_type())

    def _kind(self, verb: str) -> str:
        if not (self.at("STREAM") or self.at("TABLE")):
            self.fail_expected(f"STREAM or TABLE after {verb}", ["STREAM", "TABLE"])
        return self.advance().upper

    def _columns(self) -> tuple[ColumnDefinition, ...]:
        if not self.take("("):
            return ()
        columns = self.listed(self._column)
        if not self.take(")"):
            self.fail(f"Expecting {{',', ')'}}: expected , or ) but found {self.found()}")
        return tuple(columns)

    def _column(self) -> ColumnDefinition:
        name = self.name("a column name")
        sql_type = self.parse_type()
        at = self.token.start
        if self.take("PRIMARY", "KEY"):
            return ColumnDefinition(name, sql_type, "PRIMARY KEY")
        if self.take("KEY"):
            return ColumnDefinition(name, sql_type, "KEY")
        if self.take("HEADERS"):
            if sql_type != _HEADERS:
                self.refuse(
                    f"Invalid type for HEADERS column: expected {_HEADERS}, got {sql_type}", at
                )
            return ColumnDefinition(name, sql_type, "HEADERS")
        if self.take("HEADER", "("):
            return self._header(name, sql_type, at)
        return ColumnDefinition(name, sql_type)

    def _header(self, name: Name, sql_type: SqlType, at: int) -> ColumnDefinition:
        key = self.string("HEADER is written HEADER('name')").strip()
        self.expect(")")
        if sql_type.base is not Base.BYTES:
            self.refuse(
                f"Invalid type for HEADER('{key}') column: expected BYTES, got {sql_type}", at
            )
        return ColumnDefinition(name, sql_type, "HEADER", key)

    def _with(self) -> tuple[Property, ...]:
        if not self.take("WITH"):
            return ()
        self.expect("(")
        properties = self.listed(self._property)
        if not self.take(")"):
            self.fail(f"Expecting {{',', ')'}}: expected , or ) but found {self.found()}")
        return tuple(properties)

    def _property(self) -> Property:
        token = self.token
        if self.take_kind(Kind.STRING):
            key = token.text.upper()
        else:
            key = self.name("a property name").text.upper()
        self.expect("=")
        return Property(key, self._literal(key), token.start)

    def _literal(self, key: str) -> str | int | float | bool | None:
        token = self.token
        sign = "-" if self.take("-") else ""
        if number := self.take_kind(Kind.INTEGER):
            return self.integer(number, sign + number.text)
        if number := self.take_kind(Kind.DECIMAL) or self.take_kind(Kind.FLOAT):
            return float(sign + number.text)
        if not sign and (text := self.take_kind(Kind.STRING)):
            return text.text
        if not sign and (self.at("TRUE") or self.at("FALSE")):
            return self.advance().upper == "TRUE"
        if sign or not self.take("NULL"):
            self.fail(f"{key} must be a literal: a quoted string, a number or a boolean", at=token)
        return None
