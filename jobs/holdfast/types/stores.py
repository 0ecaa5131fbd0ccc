"""A store's rows, position and digest for the judge, as plain values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.types.status import JobStatus

__all__ = ["StoreDigest", "newest_stores", "rows_of_status"]


@dataclass(frozen=True)
class StoreDigest:
    """One store of one state partition.

    A digest is the sum, modulo 2^128, of one number per row, so that the order of rows does not
    matter: the first 16 bytes, big-endian, of SHA-256 over the length of the state key (4 bytes,
    big-endian), the state key and the row.

    Attributes:
        position: the changelog offset to replay next.
        digest: in hex; None if only the number of rows is known (memory backend).
        volume: the ordinal of the store's volume; -1 if unknown.
    """

    application_id: str
    query_id: str
    partition: int
    rows: int
    position: int
    digest: str | None = None
    volume: int = -1

    @staticmethod
    def of(fields: Mapping[str, Any]) -> StoreDigest:
        """From the JSON of `holdfast stores`.

        Raises:
            TypeError: fields are missing or unknown.
        """
        return StoreDigest(**fields)


def newest_stores(
    found: Iterable[StoreDigest], application_id: str
) -> dict[tuple[str, int], StoreDigest]:
    """A job's stores by (query id, state partition), each with the furthest position.

    Volumes keep stores of state partitions that have moved away, which are behind.
    """
    newest: dict[tuple[str, int], StoreDigest] = {}
    for store in found:
        place = (store.query_id, store.partition)
        if store.application_id == application_id and (
            place not in newest or store.position > newest[place].position
        ):
            newest[place] = store
    return newest


def rows_of_status(status: JobStatus) -> list[StoreDigest]:
    """The stores as the driver reports them, for stores that cannot be read."""
    return [
        StoreDigest(status.application_id, query_id, p.partition, p.rows, p.position)
        for query_id, query in status.queries.items()
        for p in query.state_partitions
    ]
