"""The grammar of types."""

from __future__ import annotations

from holdfast.sql.expressions.type_rules import simple_type
from holdfast.sql.parse.cursor import Cursor
from holdfast.sql.parse.dialect import Kind
from holdfast.types.columns.schema import NESTED_MAX, Base, Column, SqlType

__all__ = ["TypeParser"]

_DECIMAL_PRECISION_MAX = 38


class TypeParser(Cursor):
    """Base types and their synonyms, named types, DECIMAL(p, s), ARRAY, MAP and STRUCT."""

    def parse_type(self) -> SqlType:
        """A type; ARRAY may also follow its element's type."""
        start = self.token.start
        result = self._prefixed()
        while self.take("ARRAY"):
            result = SqlType(Base.ARRAY, element=result)
        if result.depth > NESTED_MAX:
            self.refuse(f"Types may be nested {NESTED_MAX} deep", start)
        return result

    def _prefixed(self) -> SqlType:
        if self.at("DECIMAL"):
            return self._decimal()
        if self.take("ARRAY", "<"):
            element = self.parse_type()
            self.expect(">")
            return SqlType(Base.ARRAY, element=element)
        if self.take("MAP", "<"):
            key = self.parse_type()
            self.expect(",")
            value = self.parse_type()
            self.expect(">")
            return SqlType(Base.MAP, element=value, key=key)
        if self.take("STRUCT", "<"):
            return self._struct()
        return self._simple()

    def _simple(self) -> SqlType:
        name = self.name("a type")
        self._length()
        if name.text in self.types:
            return self.types[name.text]
        found = simple_type(name.text)
        if isinstance(found, str):
            self.refuse(found, name.at)
        return found

    def _length(self) -> None:
        # VARCHAR(20): ksqlDB parses the parameters of a type and ignores them.
        if self.take("("):
            self.listed(self._parameter)
            self.expect(")")

    def _parameter(self) -> None:
        if not self.take("STRING") and self.take_kind(Kind.INTEGER) is None:
            self.fail(
                f"Expecting {{'STRING', INTEGER_VALUE}}: expected a length but found {self.found()}"
            )

    def _decimal(self) -> SqlType:
        start = self.advance()
        self.expect("(")
        precision = self.whole_number("DECIMAL's precision")
        self.expect(",")
        scale = self.whole_number("DECIMAL's scale")
        self.expect(")")
        written = f"DECIMAL({precision}, {scale})"
        if precision < 1:
            self.refuse(f"DECIMAL precision must be >= 1: {written}", start.start)
        if scale > precision:
            self.refuse(f"DECIMAL precision must be >= scale: {written}", start.start)
        if precision > _DECIMAL_PRECISION_MAX:
            self.refuse(
                f"{written}: a DECIMAL has a precision of 1 to {_DECIMAL_PRECISION_MAX}",
                start.start,
            )
        return SqlType(Base.DECIMAL, precision=precision, scale=scale)

    def _struct(self) -> SqlType:
        if self.take(">"):
            return SqlType(Base.STRUCT)
        fields: list[Column] = []
        while not fields or self.take(","):
            name = self.name("a field name")
            if any(f.name == name.text for f in fields):
                self.refuse(
                    f"Duplicate field names found in STRUCT: the field {name.text} appears twice",
                    name.at,
                )
            fields.append(Column(name.text, self.parse_type()))
        self.expect(">")
        return SqlType(Base.STRUCT, fields=tuple(fields))
