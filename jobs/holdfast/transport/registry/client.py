"""The client of a schema registry; translates its library's exceptions."""

from __future__ import annotations

import atexit
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from holdfast.errors import HoldfastError, RegistryUnavailable, SchemaMissing, SchemaRefused
from holdfast.transport.registry.kept import KeptSchemas, folder_of_executor
from holdfast.transport.registry.limited import limit_answers
from holdfast.transport.registry.readiness import Readiness
from holdfast.types.columns.schemas import (
    ANSWER_BYTES_MAX,
    START_REGISTRY,
    Registered,
    Schema,
    SchemaKind,
    Schemas,
)

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import Schema as _Found
    from confluent_kafka.schema_registry import SchemaRegistryClient

__all__ = ["RegistryClient", "open_registry", "registry_of"]

_Result = TypeVar("_Result")
_TIMEOUT_MS = "request.timeout.ms"
_TOKEN = "bearer.auth.token"  # noqa: S105 - the name of a property
_DIALECT = "http://json-schema.org/draft-07/schema#"
_REFUSALS = (409, 422)
_TRANSITIVE = "_TRANSITIVE"  # levels at which a schema has to fit all versions
_DEPTH_MAX = 100  # of references
_REFERENCES_MAX = 1_000  # schemas that one schema refers to, directly or not


def open_registry(properties: Mapping[str, str]) -> Schemas:
    """The client for these properties, one per process; `url` and what `Settings.registry` holds.

    Raises:
        RegistryUnavailable: no registry is configured.
    """
    return _opened(tuple(sorted(properties.items())))


def registry_of(properties: Mapping[str, str]) -> Schemas | None:
    """The client for these properties; None where they name no registry.

    Raises:
        RegistryUnavailable: a certificate cannot be read.
    """
    return open_registry(properties) if properties else None


@cache
def _opened(properties: tuple[tuple[str, str], ...]) -> Schemas:
    given = dict(properties)
    made = RegistryClient(given)
    atexit.register(made.close)
    folder = folder_of_executor(given["url"])
    return made if folder is None else KeptSchemas(made, folder)


class RegistryClient:
    """Implements `Schemas`.  Safe for threads; a schema found by its id is kept."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        """Raises `RegistryUnavailable`: there is no url, or a certificate cannot be read."""
        self._url = properties.get("url", "")
        self._client = _client(properties, self._odd)
        self._readiness = Readiness(properties)
        self._lock = Lock()
        self._by_id: dict[int, Schema] = {}

    def close(self) -> None:
        """Closes the connections; no request may follow."""
        self._client.close()
        self._readiness.close()

    def by_id(self, schema_id: int) -> Schema:
        known = self._by_id.get(schema_id)
        if known is not None:
            return known
        what = f"no schema with id {schema_id}"
        found = self._asked(lambda: self._client.get_schema(schema_id), what)
        with self._lock:
            return self._by_id.setdefault(schema_id, self._schema(found))

    def latest(self, subject: str) -> Registered | None:
        try:
            found = self._asked(lambda: self._newest(subject), f"no subject {subject}")
        except SchemaMissing:
            return None
        return self._registered(found)

    def register(self, subject: str, schema: Schema) -> int:
        return _plain_or_with_dialect(subject, schema, self._register)

    def _register(self, subject: str, wanted: _Found) -> int:
        found: int = self._asked(
            lambda: self._client.register_schema(subject, wanted), f"no subject {subject}"
        )
        return found

    def registered(self, subject: str, schema: Schema) -> int | None:
        for wanted in (schema, _with_dialect(schema)):
            if wanted is not None and (found := self._looked_up(subject, wanted)) is not None:
                return found
        _plain_or_with_dialect(subject, schema, self._refuse_unfit)
        return None

    def _looked_up(self, subject: str, schema: Schema) -> int | None:
        missing = f"no subject {subject}"
        wanted = _wanted(schema)
        try:
            found = self._asked(lambda: self._client.lookup_schema(subject, wanted), missing)
        except SchemaMissing:
            return None
        return found.schema_id

    def _refuse_unfit(self, subject: str, wanted: _Found) -> None:
        """Raises `SchemaRefused` unless the schema fits the subject's versions, if it has any."""
        missing = f"no subject {subject}"
        with suppress(SchemaMissing):
            self._refuse_unlike(subject, wanted, "latest")
            if not self._level(subject).endswith(_TRANSITIVE):
                return
            versions = self._asked(lambda: self._client.get_versions(subject), missing)
            for version in sorted(versions, reverse=True):
                self._refuse_unlike(subject, wanted, version)

    def _refuse_unlike(
        self, subject: str, wanted: _Found, version: int | Literal["latest"]
    ) -> None:
        missing = f"no version {version} of {subject}"
        if not self._asked(
            lambda: self._client.test_compatibility(subject, wanted, version), missing
        ):
            which = "the newest version" if version == "latest" else f"version {version}"
            raise self._refused(f" for {subject}: it does not fit {which}")

    def _level(self, subject: str) -> str:
        """The compatibility level of a subject, or of all; empty: it cannot be read.

        Some registries let users register who may not read it.
        """
        with suppress(RegistryUnavailable):
            for of in (subject, None):
                with suppress(SchemaMissing):
                    found = self._asked(partial(self._client.get_config, of), "no level")
                    return str(found.compatibility_level or found.compatibility or "")
        return ""

    def _newest(self, subject: str) -> Any:
        # The library would answer from its memory, for ever.
        self._client.clear_latest_caches()  # type: ignore[no-untyped-call]
        return self._client.get_latest_version(subject)

    def _registered(self, found: Any) -> Registered:
        schema = self._schema(found.schema)
        return Registered(int(found.schema_id), schema, found.subject, int(found.version))

    def _schema(self, found: _Found) -> Schema:
        if not isinstance(found.schema_str, str):
            raise self._odd("an answer without a schema")
        try:
            kind = SchemaKind((found.schema_type or "AVRO").upper())
        except ValueError:
            raise self._odd(f"a schema of type {found.schema_type}") from None
        references: dict[str, str] = {}
        for name, text in self._references(found, {}, 0):
            references.setdefault(name, text)
        return Schema(kind, found.schema_str, tuple(references.items()))

    def _references(
        self, found: _Found, seen: dict[tuple[str, int], int], depth: int
    ) -> Iterator[tuple[str, str]]:
        """The schemas that one refers to, each after those it needs; `seen`: their letters."""
        if depth > _DEPTH_MAX:
            raise self._odd(f"a schema whose references go more than {_DEPTH_MAX} deep")
        for each in found.references or ():
            subject, version = str(each.subject), int(each.version or 0)
            if (subject, version) in seen or len(seen) > _REFERENCES_MAX:
                continue
            inner = self._asked(
                lambda s=subject, v=version: self._client.get_version(s, v),  # type: ignore[misc]
                f"no version {version} of {subject}",
            )
            text = str(inner.schema.schema_str)
            seen[subject, version] = len(text)
            if sum(seen.values()) > ANSWER_BYTES_MAX:
                raise self._odd(f"a schema that refers to more than {ANSWER_BYTES_MAX} letters")
            yield from self._references(inner.schema, seen, depth + 1)
            yield str(each.name), text

    def _asked(self, call: Callable[[], _Result], missing: str) -> _Result:
        """The answer; a denial counts only of a registry that has read all its schemas."""
        try:
            return self._answer(call, missing)
        except SchemaMissing:
            if self._readiness.still_reads():
                told = "has not read all its schemas yet"
                raise self._away(told, "it has just been started") from None
        return self._answer(call, missing)

    def _answer(self, call: Callable[[], _Result], missing: str) -> _Result:
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        try:
            return call()
        except SchemaRegistryError as error:
            raise self._answered(error, missing) from None
        except HoldfastError:
            raise
        except json.JSONDecodeError:
            raise self._odd("something that is not JSON") from None
        except RecursionError:
            raise self._odd("JSON that is nested without an end") from None
        except Exception as error:  # noqa: BLE001
            # httpx, ssl and the library itself raise many kinds, none of them about our request.
            raise self._away(f"does not answer ({type(error).__name__}: {error})") from None

    def _answered(self, error: Any, missing: str) -> HoldfastError:
        status, code = error.http_status_code, error.error_code
        if status == 404 and str(code or "").startswith("404"):  # 404 alone may be any web server
            return SchemaMissing(f"The schema registry {self._url} has {missing}.")
        if status in _REFUSALS:
            return self._refused(f": {_short(error.error_message)}")
        if status in (401, 403):
            return self._away(f"answers {status}", "the credentials in schema.registry.* are wrong")
        return self._away(f"answers {status}: {_short(error.error_message)}")

    def _refused(self, why: str) -> SchemaRefused:
        return SchemaRefused(
            f"The schema registry {self._url} refuses a schema{why}",
            cause="it is not compatible with the subject's earlier versions",
            action="see the subject's compatibility, or write to another topic",
        )

    def _odd(self, what: str) -> RegistryUnavailable:
        return self._away(f"answers with {what}", "another server has that address")

    def _away(self, fact: str, cause: str = "it is down, or unreachable") -> RegistryUnavailable:
        return RegistryUnavailable(
            f"The schema registry {self._url} {fact}.", cause=cause,
            action="see that it runs; check schema.registry.url",
        )  # fmt: skip


def _plain_or_with_dialect(
    subject: str, schema: Schema, ask: Callable[[str, _Found], _Result]
) -> _Result:
    """The answer about a schema, or, if it is refused, about the same one with `$schema`.

    Raises:
        SchemaRefused: the registry takes neither.
    """
    if schema.references:
        raise SchemaRefused(
            f"The schema for {subject} refers to others, which cannot be registered from here.",
            action="register it with the registry's own tools; VALUE_SCHEMA_ID uses it",
        )
    try:
        return ask(subject, _wanted(schema))
    except SchemaRefused:
        dialect = _with_dialect(schema)
        if dialect is None:
            raise
        return ask(subject, _wanted(dialect))


def _wanted(schema: Schema) -> _Found:
    """The schema as the library takes it."""
    from confluent_kafka.schema_registry import Schema as Wanted

    return Wanted(schema.text, schema.kind.value)


def _with_dialect(schema: Schema) -> Schema | None:
    """The JSON schema with `$schema`; None: another language, or it has one.

    Apicurio takes a schema of a single value only with it; ksqlDB writes none.
    """
    if schema.kind is not SchemaKind.JSON:
        return None
    written = json.loads(schema.text)
    if not isinstance(written, dict) or "$schema" in written:
        return None
    text = json.dumps({"$schema": _DIALECT, **written}, separators=(",", ":"))
    return replace(schema, text=text)


def _short(text: object) -> str:
    return str(text)[:300]


def _client(
    properties: Mapping[str, str], refused: Callable[[str], HoldfastError]
) -> SchemaRegistryClient:
    from confluent_kafka.schema_registry import SchemaRegistryClient

    known: dict[str, Any] = dict(properties)
    if not known.get("url"):
        raise RegistryUnavailable(
            "There is no schema registry.",
            action=f"set schema.registry.url, or {START_REGISTRY}",
        )
    known["timeout"] = int(known.pop(_TIMEOUT_MS, 10_000)) / 1_000
    # A failing batch is repeated anyway.
    known |= {"max.retries": 1, "retries.wait.ms": 100, "retries.max.wait.ms": 500}
    if _TOKEN in known:
        known["bearer.auth.credentials.source"] = "STATIC_TOKEN"
        known.setdefault("bearer.auth.logical.cluster", "default")
    try:
        made = SchemaRegistryClient(known)
    except (ValueError, TypeError, OSError) as error:
        raise RegistryUnavailable(
            f"The client of the schema registry cannot start: {error}",
            action="check schema.registry.url and the files in schema.registry.ssl.*",
        ) from None
    limit_answers(made._rest_client.session, known["timeout"], refused)
    return made
