"""Schemas of keys and values: columns inferred from a registry, and the schemas of columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from holdfast.errors import SchemaMissing, SchemaRefused
from holdfast.sql.parse.script import Script
from holdfast.sql.plan.sources.options import Options
from holdfast.tasks.registered.language import LANGUAGES, Language
from holdfast.types.columns.schema import Column
from holdfast.types.columns.schemas import START_REGISTRY, DataSchema, Schemas, subject_of
from holdfast.types.statements.sources import Format, Nullable

__all__ = ["SchemaPart"]


@dataclass(frozen=True)
class SchemaPart:
    """The keys or the values of a topic; `at`: where messages about them point to.

    Attributes:
        unwrapped: a single column stands without a record, if the language has that.
        nullable: how it tells NULL, if the language has a choice.
        inherited: the schema of the source of a query, if it is in the same format.
    """

    script: Script
    at: int
    topic: str
    form: Format
    options: Options
    schemas: Schemas | None
    key: bool = True
    unwrapped: bool = True
    nullable: Nullable = Nullable.NONE
    inherited: DataSchema | None = None

    @property
    def _language(self) -> Language | None:
        return LANGUAGES.get(self.form)

    @property
    def _id(self) -> int | None:
        return self.options.key_schema_id if self.key else self.options.value_schema_id

    @property
    def _name(self) -> str:
        options, language = self.options, self._language
        name = options.key_schema_name if self.key else options.value_schema_name
        if name or language is None or self.inherited is None or not language.inherits_name:
            return name
        return self.inherited.full_name

    def inferred(
        self, declared: tuple[Column, ...]
    ) -> tuple[tuple[Column, ...], DataSchema | None]:
        """The columns; with their schema where the registry has them and the statement does not.

        Raises:
            InvalidStatement: the registry has no schema, or one without columns.
            RegistryUnavailable: it does not answer.
        """
        language, part = self._language, "KEY" if self.key else "VALUE"
        if self._id is not None and language is None:
            raise self.script.invalid(
                self.at,
                f"{part}_FORMAT should support schema inference when {part}_SCHEMA_ID is provided. "
                f"Current format is {self.form}.",
            )
        if self._id is not None and declared:
            raise self.script.invalid(
                self.at,
                f"Table elements and {part}_SCHEMA_ID cannot both exist for create statement.",
            )
        if language is None or declared:
            return declared, None
        try:
            data = self._named(self._registered(), language)
            found = language.columns_of(
                data.schema, data.full_name,
                unwrapped=self.unwrapped and language.unwraps, key=self.key,
                exact=self._id is not None,
            )  # fmt: skip
        except SchemaRefused as error:
            raise self._refused(error) from None
        except SchemaMissing as error:
            raise self._missing(data.subject, error.fact) from None
        return found, replace(data, fixed=True)

    def _named(self, data: DataSchema, language: Language) -> DataSchema:
        """With the name of its only message, where a statement gives none.

        Raises:
            SchemaRefused: it is of another language, or has several messages.
        """
        part, kind = "KEY" if self.key else "VALUE", data.schema.kind
        if kind is not self.form.schema_kind:
            raise SchemaRefused(
                f"{part.capitalize()} schema is not in the expected format. You may want to set "
                f"{part}_FORMAT to '{kind}'.\nexpected format: {self.form.schema_kind}\n"
                f"actual format from Schema Registry: {kind}",
            )
        names = language.full_names(data.schema)
        if data.full_name or not names:
            return data
        if len(names) > 1:
            raise SchemaRefused(
                f"{part.capitalize()} schema has multiple schema definitions.\n"
                f"{', '.join(names)}\nPlease specify a schema full name in the WITH clause using "
                f"{part}_SCHEMA_FULL_NAME",
                action=f"{part}_SCHEMA_FULL_NAME='{names[0]}', for example",
            )
        return replace(data, full_name=names[0])

    def schema_for(self, columns: Sequence[Column], *, of_sink: bool) -> DataSchema | None:
        """The schema of columns: that of the statement's id, or the one that ksqlDB would make.

        Args:
            of_sink: columns are written with it, so it must hold them.

        Raises:
            InvalidStatement: the format cannot hold the columns, or the id is unknown.
        """
        language = self._language
        if language is None or not columns:
            return None
        unwrapped = self.unwrapped and len(columns) == 1 and language.unwraps
        try:
            if self._id is not None:
                data = self._named(self._registered(), language)
                if of_sink:
                    nothing = [pa.array([], c.type.arrow()) for c in columns]
                    language.encode(columns, nothing, data, unwrapped=unwrapped)
                return data
            schema = language.schema_of(
                columns, self._name, unwrapped=unwrapped, nullable=self.nullable
            )
        except (SchemaRefused, SchemaMissing) as error:
            raise self._refused(error) from None
        return DataSchema(subject_of(self.topic, key=self.key), schema, full_name=self._name)

    def _registered(self) -> DataSchema:
        subject = subject_of(self.topic, key=self.key)
        if self.schemas is None:
            raise self.script.invalid(
                self.at,
                "No columns supplied. Holdfast would ask the schema registry, and there is none",
                action=f"set schema.registry.url, {START_REGISTRY}, or list the columns: "
                "(name TYPE, ...)",
            )
        if self._id is None:
            found = self.schemas.latest(subject)
            if found is None:
                raise self._missing(subject)
            return DataSchema(subject, found.schema, found.id, self._name)
        try:
            schema = self.schemas.by_id(self._id)
        except SchemaMissing as error:
            raise self._refused(error) from None
        return DataSchema(subject, schema, self._id, self._name, fixed=True)

    def _missing(self, subject: str, cause: str = "") -> Exception:
        what = "keys" if self.key else "values"
        return self.script.invalid(
            self.at,
            f"Schema for message {what} on topic '{self.topic}' does not exist in the Schema "
            f"Registry.\nSubject: {subject}",
            cause=cause
            or "the topic or its schema has another name, or nothing was written there yet",
            action="list the columns: (name TYPE, ...)",
        )

    def _refused(self, error: SchemaRefused | SchemaMissing) -> Exception:
        return self.script.invalid(self.at, error.fact, cause=error.cause, action=error.action)
