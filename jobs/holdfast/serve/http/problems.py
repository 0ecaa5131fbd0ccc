"""Errors in the format of ksqlDB's REST API: a status, a code, and a JSON object."""

from __future__ import annotations

from typing import Any

from holdfast.errors import (
    BadRequest,
    HoldfastError,
    InvalidStatement,
    NotAllowed,
    Overloaded,
    PositionLost,
    Refused,
    Retriable,
)

__all__ = ["BAD_STATEMENT", "QUERY_ENDPOINT", "UNEXPECTED", "problem", "status_of"]

BAD_STATEMENT, QUERY_ENDPOINT = 40001, 40002
# The answer for an unexpected error; the details are in the log.
UNEXPECTED = "The server failed to answer; its log tells why."


def status_of(error: HoldfastError) -> int:
    """The HTTP status for an error's class, by the reaction that it asks of a client."""
    if isinstance(error, BadRequest):
        return error.status
    if isinstance(error, NotAllowed):
        return 403
    if isinstance(error, Overloaded):
        return 429
    if isinstance(error, PositionLost):
        return 410
    if isinstance(error, Refused):
        return 400
    return 503 if isinstance(error, Retriable) else 500


def _reaction(error: HoldfastError) -> str:
    """The name of the class of `holdfast.errors` that the client library raises."""
    return next(c.__name__ for c in type(error).__mro__ if not c.__name__.startswith("_"))


def problem(error: BaseException, statement: str = "", code: int = 0) -> tuple[int, dict[str, Any]]:
    """Status and body of an error; the body repeats a wrong `statement`, as in ksqlDB.

    `code`: ksqlDB's `error_code`, where it is not the status followed by two zeros.
    """
    if not isinstance(error, HoldfastError):
        return 500, {"@type": "generic_error", "error_code": 50000, "message": UNEXPECTED}
    status = status_of(error)
    wrong = isinstance(error, InvalidStatement)
    body: dict[str, Any] = {
        "@type": "statement_error" if wrong and statement else "generic_error",
        "error_code": code or (BAD_STATEMENT if wrong else status * 100),
        "message": str(error),
        "reaction": _reaction(error),
    }
    if wrong and statement:
        body |= {"statementText": statement, "entities": []}
    return status, body
