"""A store's rows, position and digest for the judge, as plain values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.types.ids import state_of
from holdfast.types.status import JobStatus

__all__ = ["JobStores", "StoreDigest", "rows_of_status", "stores_of_job"]


@dataclass(frozen=True)
class StoreDigest:
    """One store of one state partition.

    A digest is the sum, modulo 2^128, of one number per row, so that the order of rows does not
    matter: the first 16 bytes, big-endian, of SHA-256 over the length of the state key (4 bytes,
    big-endian), the state key and the row.

    Attributes:
        query_id: the `types.ids.state_name` of the query.
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


# By (`types.ids.state_name`, state partition), the furthest store first.
JobStores = Mapping[tuple[str, int], Sequence[StoreDigest]]


def stores_of_job(found: Iterable[StoreDigest], application_id: str) -> JobStores:
    """A job's stores: of owners, standbys, and state partitions that have moved away."""
    stores: dict[tuple[str, int], list[StoreDigest]] = {}
    for store in found:
        if store.application_id == application_id:
            stores.setdefault((store.query_id, store.partition), []).append(store)
    return {place: sorted(of, key=lambda s: -s.position) for place, of in stores.items()}


def rows_of_status(status: JobStatus) -> list[StoreDigest]:
    """The stores as the driver reports them, for stores that cannot be read."""
    return [
        StoreDigest(status.application_id, _state_name(status, i), p.partition, p.rows, p.position)
        for i, query in status.queries.items()
        for p in query.state_partitions
    ]


def _state_name(status: JobStatus, query_id: str) -> str:
    """The name in the middle of the changelog's."""
    return state_of(status.queries[query_id].changelog or query_id, status.application_id)
