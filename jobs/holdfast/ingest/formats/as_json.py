"""Records of any format as JSON, for those who show a record at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

from holdfast.errors import SchemaRefused
from holdfast.ingest.formats import Decoder, key_decoder, value_decoder
from holdfast.ingest.formats.registered import HEADER_BYTES
from holdfast.tasks.evaluate.values import encode_values
from holdfast.tasks.registered.language import LANGUAGES, Language
from holdfast.types.columns.schema import Column
from holdfast.types.columns.schemas import DataSchema, Schemas
from holdfast.types.statements.sources import Format, Nullable, Sink, Source, WindowKind

__all__ = ["AsJson", "columns_of_any", "registered_as_json"]

_TIME_BYTES = 8


class AsJson:
    """Translates the messages of one stream or table; text formats stay as they are.

    Attributes:
        formats: of the key and of the value, once translated.
    """

    def __init__(self, of: Source | Sink, schemas: Schemas | None = None) -> None:
        """`schemas`: the registry of formats that have one."""
        self._of = of
        self._schemas = schemas
        self.formats = (_translated(of.key_format), _translated(of.value_format))

    def key(self, data: bytes | None) -> bytes | None:
        """The record key; its window stays behind it.

        Raises:
            ValueError: it is no message of the key columns.
            RegistryUnavailable: its schema is not known yet, and the registry does not answer.
        """
        of = self._of
        if data is None or not _is_binary(of.key_format):
            return data
        times = 0 if of.window is None else 2 if of.window is WindowKind.SESSION else 1
        cut = len(data) - times * _TIME_BYTES
        return self._key(data[:cut]) + data[cut:]

    def value(self, data: bytes | None) -> bytes | None:
        """The record value.

        Raises:
            ValueError: it is no message of the value columns.
            RegistryUnavailable: its schema is not known yet, and the registry does not answer.
        """
        if data is None or not _is_binary(self._of.value_format):
            return data
        return self._value(data)

    @cached_property
    def _key(self) -> Callable[[bytes], bytes]:
        of, columns = self._of, self._of.key_columns
        language = LANGUAGES.get(of.key_format)
        decoder = key_decoder(
            of.key_format, columns, columns, of.key_delimiter, of.key_nullable, self._schemas,
            of.key_schema,
        )  # fmt: skip
        wrap = len(columns) > 1 or language is None or not language.unwraps
        return _translation(columns, decoder, wrap=wrap)

    @cached_property
    def _value(self) -> Callable[[bytes], bytes]:
        of, columns = self._of, self._of.value_columns
        decoder = value_decoder(
            of.value_format, columns, columns,
            wrap=of.wrap_single, nullable=of.nullable, schemas=self._schemas,
            own=of.value_schema,
        )  # fmt: skip
        return _translation(columns, decoder, wrap=of.wrap_single)


def registered_as_json(
    payload: bytes, schemas: Schemas, nullable: Nullable = Nullable.NONE
) -> bytes:
    """A payload as JSON, with all fields of the schema that its id names.

    Raises:
        ValueError: it is not what the schema writes, or has no id.
        SchemaMissing, SchemaRefused: there is no such schema, or it cannot be read.
        RegistryUnavailable: the registry does not answer.
    """
    if len(payload) < HEADER_BYTES or payload[0]:
        raise ValueError("it has no schema's id")
    number = int.from_bytes(payload[1:HEADER_BYTES], "big")
    schema = schemas.by_id(number)
    form = next(f for f in LANGUAGES if f.schema_kind is schema.kind)
    language = LANGUAGES[form]
    data = DataSchema("", schema, number, language.name_in(schema, payload[HEADER_BYTES:]))
    columns, unwrapped = columns_of_any(language, data, key=False, exact=True)
    decoder = value_decoder(
        form, columns, columns, wrap=not unwrapped, schemas=schemas, nullable=nullable
    )
    return _translation(columns, decoder, wrap=not unwrapped)(payload)


def columns_of_any(
    language: Language, data: DataSchema, *, key: bool, exact: bool
) -> tuple[tuple[Column, ...], bool]:
    """The columns of a schema, and whether it is that of a single value without a record.

    Raises:
        SchemaRefused: it holds no column.
    """

    def found(*, unwrapped: bool) -> tuple[Column, ...]:
        return language.columns_of(
            data.schema, data.full_name, unwrapped=unwrapped, key=key, exact=exact
        )

    try:
        return found(unwrapped=False), False
    except SchemaRefused:
        if not language.unwraps:
            raise
        return found(unwrapped=True), True


def _is_binary(form: Format) -> bool:
    return form is Format.PROTOBUF_NOSR or form.schema_kind is not None


def _translated(form: Format) -> Format:
    return Format.JSON if _is_binary(form) else form


def _translation(
    columns: Sequence[Column], decoder: Decoder, *, wrap: bool
) -> Callable[[bytes], bytes]:
    """One message -> the JSON that ksqlDB would write for its columns."""

    def translated(data: bytes) -> bytes:
        found = decoder.decode([data])
        if found.bad:
            raise ValueError(found.bad[0])
        return encode_values(columns, found.columns, Format.JSON, wrap=wrap)[0] or b"null"

    return translated
