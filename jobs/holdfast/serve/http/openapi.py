"""/openapi.json: the API in OpenAPI 3.1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import orjson

from holdfast import __version__
from holdfast.serve.http.forms import ARROW, DELIMITED, EVENTS, JSON, KSQL_JSON, NDJSON

__all__ = ["openapi"]

_Json = dict[str, Any]

_HEALTH = "200: serves rows; 503: restoring. `isHealthy` is false while Kafka is silent, too."


def _object(properties: Mapping[str, _Json], required: Sequence[str] = ()) -> _Json:
    return {"type": "object", "properties": dict(properties), "required": list(required)}


def _ref(name: str) -> _Json:
    return {"$ref": f"#/components/schemas/{name}"}


_TEXT, _WHOLE, _YES = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}
_ANY_OBJECT: _Json = {"type": "object", "additionalProperties": True}
_ROW: _Json = {"type": "array", "items": {}}
_PARTITION = _object(
    {
        "position": _WHOLE,
        "lag": _WHOLE,
        "restoring": _YES,
        "server": _TEXT,
        "checked_ms": _WHOLE,
        "checked_ago_ms": _WHOLE,
    },
    ("position", "lag"),
)
_PARTITIONS: _Json = {"type": "object", "additionalProperties": _ref("Partition")}
_COLUMN = _object({"name": _TEXT, "type": _TEXT}, ("name", "type"))
_COLUMNS: _Json = {"type": "array", "items": _ref("Column")}

_SCHEMAS: _Json = {
    "Error": _object(
        {"@type": _TEXT, "error_code": _WHOLE, "message": _TEXT, "reaction": _TEXT,
         "statementText": _TEXT, "entities": {"type": "array", "items": {}}},
        ("@type", "error_code", "message"),
    ),
    "Partition": _PARTITION,
    "Column": _COLUMN,
    "Ask": _object(
        {
            "sql": {**_TEXT, "description": "One SELECT; with EMIT CHANGES it is a push query."},
            "properties": {**_ANY_OBJECT, "description": "auto.offset.reset, "
                           "ksql.query.pull.table.scan.enabled, max.allowed.offset.lag"},
            "sessionVariables": _ANY_OBJECT,
            "positions": {
                "description": "Wait until these are reached: `partitions` of an earlier answer.",
                "type": "object", "additionalProperties": {"anyOf": [_WHOLE, _ref("Partition")]},
            },
            "wait_ms": {**_WHOLE, "description": "How long to wait for `positions`."},
            "timeout_ms": {**_WHOLE, "description": "A pull query's limit, below the server's."},
            "resume": {**_TEXT, "description": "Token of an earlier answer to resume after."},
        },
        ("sql",),
    ),
    "Answer": _object(
        {"query_id": _TEXT, "columns": _COLUMNS, "rows": {"type": "array", "items": _ROW},
         "partitions": _PARTITIONS, "error": _ref("Error")},
        ("query_id", "columns", "rows"),
    ),
    "Table": _object(
        {"name": _TEXT, "query": {"type": ["string", "null"]}, "topic": _TEXT,
         "partitions": _WHOLE, "key": {"type": "array", "items": _TEXT}, "columns": _COLUMNS,
         "also": {"type": "array", "items": _TEXT}, "window": {"type": ["object", "null"]},
         "statement": _TEXT},
        ("name", "topic", "partitions", "key", "columns"),
    ),
    "Tables": _object({"tables": {"type": "array", "items": _ref("Table")},
                       "unserved": {"type": "array", "items": _ANY_OBJECT}}),
    "Positions": _object({"table": _TEXT, "partitions": _PARTITIONS}),
    "Servers": _object({"me": _TEXT, "servers": {"type": "array", "items": _ANY_OBJECT}}),
}  # fmt: skip


def _content(kinds: Mapping[str, _Json]) -> _Json:
    return {kind: {"schema": schema} for kind, schema in kinds.items()}


def _answers(text: str, kinds: Mapping[str, _Json]) -> _Json:
    wrong = {"description": "An error.", "content": _content({JSON: _ref("Error")})}
    return {"200": {"description": text, "content": _content(kinds)}, "default": wrong}


def _operation(
    name: str, text: str, kinds: Mapping[str, _Json], *, body: _Json | None = None,
    parameters: Sequence[_Json] = (), public: bool = False,
) -> _Json:  # fmt: skip
    found: _Json = {"operationId": name, "summary": text, "responses": _answers(text, kinds)}
    if body is not None:
        found["requestBody"] = {"required": True, "content": _content({JSON: body})}
    if parameters:
        found["parameters"] = list(parameters)
    if public:
        found["security"] = []
    return found


def _parameter(name: str, place: str) -> _Json:
    return {"name": name, "in": place, "required": place == "path" or name == "sql",
            "schema": _TEXT}  # fmt: skip


def _query_paths() -> _Json:
    ours = {JSON: _ref("Answer"), NDJSON: _TEXT, EVENTS: _TEXT,
            ARROW: {"type": "string", "format": "binary"}}  # fmt: skip
    ksql: dict[str, _Json] = {DELIMITED: _TEXT, JSON: {"type": "array", "items": {}},
            KSQL_JSON: {"type": "array", "items": {}}}  # fmt: skip
    asked = _object(
        {"sql": _TEXT, "properties": _ANY_OBJECT, "sessionVariables": _ANY_OBJECT}, ("sql",)
    )
    old = _object({"ksql": _TEXT, "streamsProperties": _ANY_OBJECT}, ("ksql",))
    entities: dict[str, _Json] = {JSON: {"type": "array", "items": _ANY_OBJECT}}
    closed = _object({"queryId": _TEXT}, ("queryId",))
    parameters = [_parameter(n, "query") for n in ("sql", "resume", "timeout_ms", "wait_ms")]
    return {
        "/v1/query": {
            "post": _operation("query", "A pull or push query.", ours, body=_ref("Ask")),
            "get": _operation(
                "queryEvents", "The same query for an EventSource; Last-Event-ID resumes it.", ours,
                parameters=parameters,
            ),
        },
        "/query-stream": {"post": _operation("queryStream", "ksqlDB's.", ksql, body=asked)},
        "/query": {"post": _operation("ksqlQuery", "ksqlDB's older form.", ksql, body=old)},
        "/ksql": {"post": _operation("ksql", "SHOW, DESCRIBE, EXPLAIN.", entities, body=old)},
        "/close-query": {
            "post": _operation("closeQuery", "Ends a query.", {JSON: _ANY_OBJECT}, body=closed),
        },
    }  # fmt: skip


def _other_paths() -> _Json:
    name = [_parameter("name", "path")]

    def get(operation: str, text: str, schema: _Json = _ANY_OBJECT, **more: Any) -> _Json:
        return {"get": _operation(operation, text, {JSON: schema}, **more)}

    return {
        "/v1/tables": get("tables", "Tables that the client may read.", _ref("Tables")),
        "/v1/tables/{name}": get("table", "One table.", _ref("Table"), parameters=name),
        "/v1/tables/{name}/positions": get(
            "positions", "Position and lag of each partition.", _ref("Positions"), parameters=name
        ),
        "/v1/servers": get("servers", "The query servers.", _ref("Servers")),
        "/v1/session": {
            "post": _operation("signIn", "Keeps the token in a cookie.", {JSON: _ANY_OBJECT}),
            "delete": _operation("signOut", "Forgets the cookie.", {JSON: _ANY_OBJECT}),
        },
        "/info": get("info", "ksqlDB's."),
        "/clusterStatus": get("clusterStatus", "ksqlDB's: servers and their lags."),
        "/status": get("status", "ksqlDB's: no command runs here."),
        "/healthcheck": get("healthcheck", _HEALTH, public=True),
    }


@cache
def openapi() -> bytes:
    """The document, as JSON."""
    token = {"type": "http", "scheme": "bearer"}
    return orjson.dumps(
        {
            "openapi": "3.1.0",
            "info": {
                "title": "Holdfast query server",
                "version": __version__,
                "description": "Pull and push queries over state tables. /v1/ws is the same over "
                "a WebSocket, whose handshake carries the token: the first message is an Ask.",
            },
            "paths": {**_query_paths(), **_other_paths()},
            "components": {
                "schemas": _SCHEMAS,
                "securitySchemes": {"token": token, "basic": {"type": "http", "scheme": "basic"}},
            },
            "security": [{"token": []}, {"basic": []}, {}],
        }
    )
