"""The position of a push query, as a token that its client keeps."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping

import orjson

from holdfast.errors import Refused
from holdfast.serve.contract import ServedTable

__all__ = ["read_token", "write_token"]


def write_token(table: ServedTable, positions: Mapping[int, int]) -> str:
    """A token that resumes after these positions (partition -> position).

    A partition that is left out is read again from its contents.
    """
    places = {str(p): at for p, at in sorted(positions.items())}
    data = orjson.dumps({"table": table.name, "topic": table.topic, "positions": places})
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def read_token(table: ServedTable, token: str) -> dict[int, int]:
    """The positions of a token.

    Raises:
        Refused: it is not a token, or belongs to another table.
    """
    try:
        found = orjson.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        of = found["table"], found["topic"]
        positions = {int(p): int(at) for p, at in found["positions"].items()}
    except (binascii.Error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _refused(f"{token[:40]!r} is not a token of a push query") from error
    if of != (table.name, table.topic):
        raise _refused(f"the token belongs to {of[0]}, the query reads {table.name}")
    if any(not 0 <= p < table.partitions or at < 0 for p, at in positions.items()):
        raise _refused(f"the token has partitions that {table.name} has not")
    return positions


def _refused(fact: str) -> Refused:
    return Refused(fact, action="use the newest token of the same query, or none to start again.")
