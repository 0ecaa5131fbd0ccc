"""The parts of a REST case: statements to send, responses and errors to expect."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.errors import InvalidTestCase
from holdfast.testing.cases import Rest, RestError

__all__ = ["is_looking", "is_rest", "rest_of", "statements_of_job"]

_LOOKING = re.compile(r"\s*(SHOW|LIST|DESCRIBE|EXPLAIN)\b", re.IGNORECASE)
_KINDS = {"admin", "query", "queryProto"}


def is_rest(node: Mapping[str, Any]) -> bool:
    """Whether the case has expectations of a server's answers."""
    return "responses" in node or "expectedError" in node


def rest_of(node: Mapping[str, Any], statements: Sequence[str], where: str) -> Rest:
    """The requests and expectations of a REST case.

    Args:
        where: file and case, for messages.

    Raises:
        InvalidTestCase: a response or the error is malformed.
    """
    responses = tuple(node.get("responses") or ())
    for number, response in enumerate(responses):
        if not isinstance(response, dict) or len(response) != 1 or not response.keys() <= _KINDS:
            raise InvalidTestCase(
                f"{where}: response {number} is {response!r}.",
                action='write {"admin": {...}} or {"query": [...]}',
            )
    return Rest(
        statements=tuple(statements),
        queries_from=_first_query(statements, where),
        responses=responses,
        error=_error(node.get("expectedError"), where),
        in_order=bool((node.get("outputConditions") or {}).get("verifyOrder")),
        in_protobuf=bool(node.get("testPullWithProtoFormat")),
        wait_for_query=bool((node.get("inputConditions") or {}).get("waitForActivePushQuery")),
    )


def statements_of_job(rest: Rest) -> str:
    """The case's statements for a job; the other statements are for a server."""
    return "\n".join(t for t in rest.statements[: rest.queries_from] if not is_looking(t))


def is_looking(statement: str) -> bool:
    """Whether a statement only reads and changes nothing."""
    return _LOOKING.match(statement) is not None


def _error(node: Any, where: str) -> RestError | None:
    if node is None:
        return None
    if not isinstance(node, dict) or not {"type", "message", "status"} & node.keys():
        raise InvalidTestCase(
            f"{where} has the expectedError {node!r}.", action="give its type, message or status"
        )
    return RestError(str(node.get("type", "")), str(node.get("message", "")), node.get("status"))


def _first_query(statements: Sequence[str], where: str) -> int:
    """The number of statements before the first SELECT."""
    queries = [text.lstrip().upper().startswith("SELECT ") for text in statements]
    first = queries.index(True) if True in queries else len(queries)
    if not all(queries[first:]):
        raise InvalidTestCase(f"{where}: every statement after the first SELECT must be one.")
    return first
