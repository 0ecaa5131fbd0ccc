"""Tables of a savepoint, or of the newest snapshots of a running job, as Arrow columns.

Readable are tables whose stored rows are their rows: aggregates, windowed or not.  They have the
columns and rows that query servers answer with: key columns, WINDOWSTART and WINDOWEND of windowed
tables, value columns and ROWTIME, without the rows that HAVING hides.

The tables of a savepoint are all of one moment.  Snapshots are taken of each state partition by
itself, so a table that is read from snapshots is of several moments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

from holdfast.errors import (
    IncompatibleStatement,
    InvalidStatement,
    Refused,
    SnapshotDamaged,
    StoreCorrupted,
)
from holdfast.serve.contract import PRESENT, ROWTIME
from holdfast.serve.tables import ChangelogTable, candidates
from holdfast.sql import compile_text
from holdfast.sql.parse.script import did_you_mean
from holdfast.state import open_copy
from holdfast.state.snapshots.archive import Archive, archived_partitions, archived_state
from holdfast.state.snapshots.manifest import Manifest
from holdfast.state.snapshots.savepoints import (
    Savepoint,
    SavepointPlace,
    split_reference,
)
from holdfast.state.table_store import TableStore, store_name
from holdfast.tasks.aggregates.user import load_functions
from holdfast.tasks.compatibility import state_fits
from holdfast.tasks.processors.layout import layout_of
from holdfast.types.columns.schema import BIGINT, Column
from holdfast.types.columns.schemas import Schemas
from holdfast.types.statements.internal_topics import for_application
from holdfast.types.statements.topology import AggregateStep, Query, Source, Topology

__all__ = ["LeftOut", "SavedPartition", "SavedTable", "SavedTables", "of_savepoint", "of_snapshots"]

# A piece that is decoded at once.
_ROWS = 8_192
_BYTES = 16 << 20


@dataclass(frozen=True)
class SavedPartition:
    """The saved store of one state partition.

    Attributes:
        folder: of its files, below `snapshot.uri`.
        rows: in the store, with those that HAVING hides; None: unknown.
    """

    partition: int
    folder: str
    manifest: Manifest
    rows: int | None = None


@dataclass(frozen=True)
class SavedTable:
    """A readable table; it can be pickled, and read in another process.

    Attributes:
        uri: the value of `snapshot.uri`.
        functions: Python files that register user-defined functions and aggregates.
        partitions: the saved state partitions in order; none if nothing was committed.
        live: they are snapshots of a running job.
    """

    uri: str
    application_id: str
    query: Query
    functions: tuple[str, ...]
    partitions: tuple[SavedPartition, ...]
    live: bool

    @property
    def name(self) -> str:
        """The resolved name, as in the Topology."""
        return self.query.sink.name

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of SELECT *, and ROWTIME (BIGINT, ms)."""
        return (*self._table().columns, Column(ROWTIME, BIGINT))

    def schema(self) -> pa.Schema:
        """The same in Arrow."""
        return pa.schema([pa.field(c.name, c.type.arrow()) for c in self.columns])

    def batches(
        self, partition: SavedPartition, told: Callable[[int], None] = lambda _: None
    ) -> Iterator[pa.RecordBatch]:
        """The rows of one state partition in the order of their state keys, some thousand at once.

        The store is fetched into a temporary folder (see `tempfile.gettempdir`), which is removed
        when the iterator ends or is closed.

        Args:
            told: see `Archive.fetch`.

        Raises:
            SnapshotDamaged: a file is missing or was changed, or the rows cannot be decoded.
            SnapshotsUnavailable: the place does not answer.
            IncompatibleStatement: another statement wrote the rows.
            VolumeFull: the temporary folder has no space for the store.
        """
        table = self._table()
        with (
            TemporaryDirectory(prefix="holdfast-table-") as folder,
            self._damage_told(partition),
            closing(self._fetched(partition, Path(folder, "store"), told)) as store,
        ):
            self._check_marker(store, partition)
            for keys, rows in store.pieces(_ROWS, _BYTES):
                yield from _visible(table.decode(keys, rows))

    def _table(self) -> ChangelogTable:
        load_functions(self.functions)  # in the process that decodes
        found = candidates(Topology((self.query,)), self.application_id)
        table = found.tables[0].made(max(1, len(self.partitions)))
        assert isinstance(table, ChangelogTable)
        return table

    def _fetched(
        self, partition: SavedPartition, folder: Path, told: Callable[[int], None]
    ) -> TableStore:
        Archive(self.uri, partition.folder).fetch(partition.manifest, folder, told)
        layout = layout_of(self.query)
        return open_copy(folder, windowed=layout.windowed, segmented=layout.segmented)

    @contextmanager
    def _damage_told(self, partition: SavedPartition) -> Iterator[None]:
        """Says of damage what a reader can do; the job's own remedies do not help here."""
        try:
            yield
        except (SnapshotDamaged, StoreCorrupted) as error:
            raise SnapshotDamaged(
                f"State partition {partition.partition} of {self.name} cannot be read from "
                f"{partition.folder}: {error.fact}",
                cause=error.cause,
                action="read the table again when the job has taken its next snapshot."
                if self.live
                else "put the file back from a copy of the place, or read another savepoint.",
            ) from error

    def _check_marker(self, store: TableStore, partition: SavedPartition) -> None:
        """Compares the statement and the state partitions with those that wrote the rows."""
        marker = store.marker
        if marker is None:  # nothing was committed yet
            return
        if not state_fits(marker.canonical, self.query):
            raise IncompatibleStatement(
                f"The rows of {self.name} in {partition.folder} were written by another "
                f"statement: it was {marker.canonical}, it is here {self.query.canonical()}.",
                action="read the table with the statements that the job runs.",
            )
        if self.live and marker.state_partitions != len(self.partitions):
            raise Refused(
                f"{self.name} has {marker.state_partitions} state partitions, of which "
                f"{len(self.partitions)} have snapshots.",
                cause="the job has not taken a snapshot of each yet.",
                action="read it again after snapshot.interval.ms, or read a savepoint.",
            )


@dataclass(frozen=True)
class LeftOut:
    """Why a table cannot be read, and what to read instead."""

    reason: str
    instead: str


@dataclass(frozen=True)
class SavedTables:
    """The tables of one job in a savepoint, or in its newest snapshots.

    Attributes:
        uri, functions: see `SavedTable`.
        savepoint: None: the newest snapshots.
    """

    uri: str
    application_id: str
    topology: Topology
    functions: tuple[str, ...] = ()
    savepoint: Savepoint | None = None

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The readable tables, in the order of their statements."""
        tables = [q for q in self.topology.queries if _is_table(q)]
        return tuple(q.sink.name for q in tables if _reason(q) is None)

    @cached_property
    def left_out(self) -> dict[str, LeftOut]:
        """The other tables, by name."""
        queries = self.topology.queries
        written = {q.sink.name for q in queries}
        declared = (s for s in self.topology.sources if s.kind == "TABLE" and s.name not in written)
        found = {source.name: _declared(source) for source in declared}
        return found | {q.sink.name: r for q in queries if _is_table(q) and (r := _reason(q))}

    def table(self, name: str) -> SavedTable:
        """The table of this name, as SQL gives it: names in backquotes keep their case.

        A name that has lower-case letters in the Topology needs no backquotes.

        Raises:
            Refused: it cannot be read, or not all of its state partitions have been saved.
            InvalidStatement: there is no such table.
        """
        known = (*self.names, *self.left_out)
        found = name.strip("`") if name.startswith("`") or name in known else name.upper()
        if found in self.left_out:
            why = self.left_out[found]
            raise Refused(f"{found} cannot be read: {why.reason}.", action=f"{why.instead}.")
        query = self.topology.query(found)
        if found not in self.names or query is None:
            raise self._unknown(name, known)
        partitions = self._partitions(query)
        live = self.savepoint is None
        return SavedTable(
            self.uri, self.application_id, query, self.functions, partitions, live=live
        )

    def _unknown(self, name: str, known: Sequence[str]) -> InvalidStatement:
        others = {q.sink.name for q in self.topology.queries}
        others |= {s.name for s in self.topology.sources}
        if {name, name.upper()} & others - set(known):
            return InvalidStatement(
                f"{name} is a stream: it has no row per key.", action="read its topic."
            )
        hint = did_you_mean(name, known) or f"known are: {', '.join(known) or 'none'}."
        return InvalidStatement(f"There is no table {name}.", action=hint)

    def _partitions(self, query: Query) -> tuple[SavedPartition, ...]:
        if self.savepoint is None:
            return _newest(self.uri, self.application_id, query)
        saved = self.savepoint.query(query.id)
        root = f"{self.savepoint.folder}/{query.id}"
        stores = sorted(saved.stores if saved else (), key=lambda store: store.partition)
        return tuple(
            SavedPartition(s.partition, f"{root}/{s.partition}", s.manifest, s.rows) for s in stores
        )


def of_savepoint(
    uri: str, reference: str, functions: Sequence[str] = (), schemas: Schemas | None = None
) -> SavedTables:
    """The tables of a savepoint.

    Args:
        uri: the value of `snapshot.uri`.
        reference: `APPLICATION/NAME`.
        functions: Python files that register the job's functions and aggregates.
        schemas: the registry, for statements that take their columns from there.

    Raises:
        Refused: there is no such savepoint.
        InvalidStatement: the job uses functions, or a registry, that were not given.
        RegistryUnavailable: the registry does not answer.
        SnapshotDamaged, SnapshotsUnavailable: its document cannot be read.
    """
    application_id, name = split_reference(reference)
    found = SavepointPlace(uri, application_id).read(name)
    whose = f"the savepoint {reference}"
    topology = _compiled(found.text, application_id, functions, schemas, whose)
    return SavedTables(uri, application_id, topology, tuple(functions), found)


def of_snapshots(
    uri: str,
    application_id: str,
    statements: str,
    functions: Sequence[str] = (),
    schemas: Schemas | None = None,
) -> SavedTables:
    """The tables of the newest snapshots of a job; snapshots do not carry its statements.

    Args:
        uri, functions, schemas: see `of_savepoint`.
        statements: text of the SQL file that the job runs.

    Raises:
        InvalidStatement: the statements are wrong, or use functions, or a registry, that were not
            given.
        RegistryUnavailable: the registry does not answer.
    """
    whose = f"the job {application_id}"
    topology = _compiled(statements, application_id, functions, schemas, whose)
    return SavedTables(uri, application_id, topology, tuple(functions))


def _compiled(
    text: str,
    application_id: str,
    functions: Sequence[str],
    schemas: Schemas | None,
    whose: str,
) -> Topology:
    try:
        topology = compile_text(text, extra_aggregates=load_functions(functions), schemas=schemas)
    except InvalidStatement as error:
        raise InvalidStatement(
            f"The statements of {whose} cannot be planned: {error.fact}",
            cause=error.cause,
            action=f"{error.action}{'; ' if error.action else ''}if the job has user-defined "
            "functions, give their Python files (functions), as the job does.",
        ) from error
    return for_application(topology, application_id)


def _newest(uri: str, application_id: str, query: Query) -> tuple[SavedPartition, ...]:
    """The newest snapshot of each state partition, in the last generation that has any."""
    found = []
    state = archived_state(uri, application_id, query.id)
    for partition in archived_partitions(uri, application_id, state):
        name = store_name(application_id, state, partition)
        manifest = Archive(uri, name).newest()
        if manifest is not None:
            found.append(SavedPartition(partition, name, manifest))
    numbers = [one.partition for one in found]
    topics = {one.manifest.position.topic_id for one in found}
    if not found or numbers != list(range(len(numbers))) or len(topics) > 1:
        raise _not_all(query, numbers, len(topics))
    return tuple(found)


def _not_all(query: Query, numbers: Sequence[int], topics: int) -> Refused:
    which = ", ".join(map(str, numbers)) or "no state partition"
    several = f", of {topics} changelog topics" if topics > 1 else ""
    return Refused(
        f"There are snapshots of {which} of {query.sink.name}{several}: not of the whole table.",
        cause="the job has not taken a snapshot of each state partition yet, or application and "
        "uri are another job's.",
        action="read it again after snapshot.interval.ms, or read a savepoint.",
    )


def _is_table(query: Query) -> bool:
    return query.sink.kind == "TABLE" and not query.sink.internal


def _reason(query: Query) -> LeftOut | None:
    """None: the table's stored rows are its rows."""
    found = candidates(Topology((query,)), "job").tables
    if found and isinstance(found[0].made(1), ChangelogTable):
        return None
    if isinstance(query.step, AggregateStep):
        why = "with EMIT FINAL its state has results that are not final yet"
    elif query.stateful:
        why = "the state of a join, or of a table over a table, is not the table's rows"
    else:
        why = "its statement keeps no state"
    return LeftOut(why, f"read its topic {query.sink.topic}")


def _declared(source: Source) -> LeftOut:
    return LeftOut("others write it, and the job keeps no rows of it", f"read {source.topic}")


def _visible(decoded: pa.Table) -> list[pa.RecordBatch]:
    """The rows that the table has, as at most one batch."""
    rows = decoded.filter(decoded[PRESENT]).drop_columns([PRESENT])
    return rows.combine_chunks().to_batches() if rows.num_rows else []
