"""Copies the changelog of a generation into that of the next one, share by share.

A share is copied by one process, in the order of the log, so the last row of every key is the same
in both.  Its producer has a transactional id of its own: a copier that was given up, and wakes up
later, is fenced by its successor, or finds the commit markers that end the copying.

A copier that is lost is followed by one that begins at the log's start: rows that it writes again
come in the same order.  That is only right as long as no tombstone is removed from the old log
meanwhile, so the driver gives up a copy that takes too long.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from holdfast.errors import HoldfastError, PlanAgain
from holdfast.state.changelog import MARKER_KEY, CommitMarker, data_key
from holdfast.state.elements import is_row, state_key_of
from holdfast.state.markers import last_marker
from holdfast.state.restore import READ_AHEAD
from holdfast.tasks.heirs import Beginnings, Share, heirs
from holdfast.tasks.plan import QueryPlan
from holdfast.tasks.processors.homes import merged
from holdfast.tasks.steps import RescaleStep, reached
from holdfast.transport.cluster.admin_cache import shared_admin
from holdfast.transport.producer import TransactionalProducer
from holdfast.transport.reader import Chunk, PartitionReader
from holdfast.types.ids import rescale_transactional_id, stands_at

__all__ = ["Copied", "Copier", "Ending"]

_RECORDS = 5_000  # of a chunk
_ENDED_S = 20.0


@dataclass(frozen=True)
class Copied:
    """How far a share is copied: changelog offsets that are left, by the ends as they are now."""

    share: int
    left: int


@dataclass(frozen=True)
class Ending:
    """The end of a share's copying.

    Attributes:
        ends: of the former changelog, by state partition: nothing is committed there any more.
        markers: the last ones there, by state partition.
    """

    ends: Mapping[int, int]
    markers: Mapping[int, CommitMarker]


class Copier:
    """Owns the producer that copies one share, and how far it has come.

    Anything but a value from a method means that it must be closed and replaced.

    Args:
        plan: of the former generation; `new` of the next one.
        number: of the share.
    """

    def __init__(self, plan: QueryPlan, new: QueryPlan, share: Share, number: int) -> None:
        """Sends nothing before the first call."""
        self._plan = plan
        self._new = new
        self._share = share
        self._number = number
        self._at: dict[int, int] = {}  # the next offset to copy, by former state partition
        # Rows that belong to every heir, by former state partition: the heirs get them at the end.
        self._everywhere: dict[int, dict[bytes, bytes]] = {old: {} for old in share.old}
        self._readers: dict[int, PartitionReader] = {}
        self._producer: TransactionalProducer | None = None

    def copy(self, seconds: float) -> Copied:
        """Copies for about so long, as one transaction.

        Raises:
            PlanAgain: the copying has ended already.
            Fenced: another process copies the share.
            StoreCorrupted: a row is in a state partition that is not its own.
            HoldfastError: the brokers do not answer, or records of the former log are gone.
        """
        self._open()
        ends = {old: reader.bounds()[1] for old, reader in self._readers.items()}
        deadline = time.monotonic() + seconds
        self._transaction(ends, deadline)
        reached(RescaleStep.COPIED, self._plan.query.id, self._number)
        return Copied(self._number, sum(max(0, ends[old] - self._at[old]) for old in ends))

    def end(self, ending: Ending) -> None:
        """Copies the rest, with the first commit markers of the heirs, as one transaction.

        Raises:
            HoldfastError: see `copy`.
        """
        self._open()
        markers = [ending.markers[old] for old in self._share.old]
        source = stands_at(markers[0].source)
        heirs = Beginnings(self._new, self._share, markers, source, _origins(markers))
        ends = {old: ending.ends[old] for old in self._share.old}
        self._transaction(ends, None, heirs)
        reached(RescaleStep.ENDED, self._plan.query.id, self._number)

    def close(self) -> None:
        """Closes its connections; an open transaction ends with its time, or its successor."""
        for reader in self._readers.values():
            reader.close()
        self._readers = {}
        if self._producer is not None:
            with suppress(HoldfastError):
                self._producer.close()
            self._producer = None

    def _open(self) -> None:
        """Fences whoever copied the share before, and checks that the copying has not ended."""
        if self._producer is not None:
            return
        plan, new = self._plan, self._new
        client, query_id = plan.settings.client(), plan.query.id
        name = rescale_transactional_id(
            plan.settings.application_id, query_id, new.generation, self._number
        )
        self._producer = TransactionalProducer(client, name, plan.settings.transaction_timeout_ms)
        self._producer.init()
        for heir in self._share.new:
            shared_admin(client).await_ended(new.changelog, heir, _ENDED_S)
            _check_empty(new, heir)
        for old in self._share.old:
            reader = PartitionReader(READ_AHEAD | client, plan.changelog, old, exists=True)
            self._readers[old] = reader
            self._at[old] = reader.bounds()[0]

    def _transaction(
        self, ends: Mapping[int, int], deadline: float | None, heirs: Beginnings | None = None
    ) -> None:
        producer = self._producer
        assert producer is not None, "it is open"
        producer.begin()
        for old, end in ends.items():
            if self._at[old] < end:
                self._copy_one(producer, old, end, deadline)
        if heirs is not None:
            self._send_everywhere(producer)
            reached(RescaleStep.LEVEL, self._plan.query.id, self._number)
            told = [heirs.marker(heir).to_bytes() for heir in self._share.new]
            keys = [MARKER_KEY] * len(told)
            producer.send(self._new.changelog, list(self._share.new), keys, told)
        producer.commit()

    def _copy_one(
        self, producer: TransactionalProducer, old: int, end: int, deadline: float | None
    ) -> None:
        for chunk in self._readers[old].read(self._at[old], end, _RECORDS):
            self._send(producer, old, chunk)
            self._at[old] = max(self._at[old], chunk.position)
            if deadline is not None and time.monotonic() > deadline:
                return
        self._at[old] = end

    def _send(self, producer: TransactionalProducer, old: int, chunk: Chunk) -> None:
        records = [
            (key, value)
            for key, value in zip(chunk.keys, chunk.values, strict=True)
            if key is not None and is_row(key)
        ]
        if not records:
            return
        keys, rows = [key for key, _ in records], [row for _, row in records]
        if self._plan.query.is_broadcast:
            # All former state partitions have the same rows: one is enough, for every heir.
            for heir in self._share.new if old == self._share.old[0] else ():
                producer.send(self._new.changelog, heir, keys, rows)
            return
        state_keys = list(map(state_key_of, keys))
        of = heirs(self._plan.query, self._share, self._new.state_partitions, state_keys)
        kept = [n for n, heir in enumerate(of) if heir is None]
        self._keep(old, [(keys[n], rows[n]) for n in kept])
        places = [heir for heir in of if heir is not None]
        if kept:
            keys = [key for key, heir in zip(keys, of, strict=True) if heir is not None]
            rows = [row for row, heir in zip(rows, of, strict=True) if heir is not None]
        producer.send(self._new.changelog, places, keys, rows)

    def _keep(self, old: int, records: Sequence[tuple[bytes, bytes | None]]) -> None:
        for key, row in records:
            if row is None:
                self._everywhere[old].pop(key, None)
            else:
                self._everywhere[old][key] = row

    def _send_everywhere(self, producer: TransactionalProducer) -> None:
        found: dict[bytes, list[bytes]] = {}
        for kept in self._everywhere.values():
            for key, row in kept.items():
                found.setdefault(state_key_of(key), []).append(row)
        rows = merged(self._plan.query, found) if found else {}
        keys = [data_key(key) for key in rows]
        for heir in self._share.new:
            producer.send(self._new.changelog, heir, keys, list(rows.values()))


def _check_empty(new: QueryPlan, heir: int) -> None:
    """Raises `PlanAgain` if the heir has a commit marker: whoever wrote it has ended the copy."""
    reader = PartitionReader(new.settings.client(), new.changelog, heir, exists=True)
    try:
        marker = last_marker(reader, *reader.bounds())
    finally:
        reader.close()
    if marker is not None:
        raise PlanAgain(
            f"State partition {heir} of {new.changelog} has begun already.",
            cause="a process that was given up has ended the copying, or another driver has",
            action="none: it is copied into another generation",
        )


def _origins(markers: Sequence[CommitMarker]) -> tuple[tuple[str, int, int], ...]:
    """The first offset of each place."""
    found: dict[tuple[str, int], int] = {}
    for marker in markers:
        for place, at in marker.origins().items():
            found[place] = min(at, found.get(place, at))
    return tuple(sorted((topic, p, at) for (topic, p), at in found.items()))
