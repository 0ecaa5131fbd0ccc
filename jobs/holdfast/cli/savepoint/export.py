"""`holdfast savepoint export`: writes tables of a savepoint to Parquet files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import click
import orjson

from holdfast.cli.progress import progress_bars
from holdfast.cli.savepoint.place import place_of
from holdfast.cli.statements.options import job_options, json_errors, json_option, load_settings
from holdfast.errors import Refused
from holdfast.state.files import error_kind

if TYPE_CHECKING:
    import pyarrow as pa

    from holdfast.frames.saved_tables import SavedPartition, SavedTable, SavedTables

__all__ = ["command"]

# Of a row group, whichever is reached first.
_GROUP_ROWS = 131_072
_GROUP_BYTES = 64 << 20


@dataclass(frozen=True)
class _Exported:
    """A table in Parquet files."""

    table: str
    folder: str
    files: int
    rows: int
    bytes: int


@click.command("export")
@click.argument("job")
@click.argument("name")
@click.option("--table", help="Only this table.  [default: every table, in a folder each]")
@click.option(
    "--to",
    "folder",
    required=True,
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    help="Folder of the files; it must be empty if it exists.",
)
@job_options
@json_option
def command(
    job: str,
    name: str,
    table: str | None,
    folder: Path,
    config: Path | None,
    overrides: tuple[str, ...],
    home: str | None,
    as_json: bool,
) -> None:
    """Write tables of the savepoint NAME of JOB to Parquet files.

    Each state partition becomes a file part-00000.parquet and so on, with the columns of SELECT *
    and ROWTIME. Tables of aggregates can be exported; the rows of joins and of tables over tables
    are in their topics only. JOB is the application.id. snapshot.uri says where savepoints are.
    """
    with json_errors(as_json):
        settings = load_settings(config, overrides, home, application_id=job)
        uri = place_of(job, settings).uri

        from holdfast.frames.saved_tables import of_savepoint
        from holdfast.transport.registry import registry_of

        schemas = registry_of(settings.registry.client())
        saved = of_savepoint(uri, f"{job}/{name}", settings.functions, schemas)
        tables = _chosen(saved, table)
        _check_empty(folder)
        places = [folder if table else folder / _file_name(each.name) for each in tables]
        done = [_export(each, to) for each, to in zip(tables, places, strict=True)]
    _show(done, {} if table else _why(saved), as_json=as_json)


def _chosen(saved: SavedTables, table: str | None) -> list[SavedTable]:
    names = [table] if table else saved.names
    if not names:
        why = "; ".join(_why(saved).values())
        raise Refused(
            f"The savepoint has no table that can be exported{': ' + why if why else ''}.",
            action="read the topics of the tables.",
        )
    return [saved.table(each) for each in names]


def _why(saved: SavedTables) -> dict[str, str]:
    """Why tables are left out, and what to do, by their names."""
    return {t: f"{left.reason}; {left.instead}" for t, left in saved.left_out.items()}


def _file_name(table: str) -> str:
    return quote(table, safe="").replace(".", "%2E")


def _check_empty(folder: Path) -> None:
    if folder.exists() and not (folder.is_dir() and next(folder.iterdir(), None) is None):
        raise Refused(
            f"{folder} is not an empty folder.",
            cause="it has files of something else, or of an export that was interrupted.",
            action="name a new folder, or remove its files.",
        )


def _export(table: SavedTable, folder: Path) -> _Exported:
    """Writes one file per state partition."""
    _check_empty(folder)  # two names may be one where the file system ignores case
    with _on_disk(folder):
        folder.mkdir(parents=True, exist_ok=True)
    total, rows, size = sum(p.rows or 0 for p in table.partitions), 0, 0
    with progress_bars() as progress:
        bar = progress.add_task(table.name, total=total)
        for partition in table.partitions:
            path = folder / f"part-{partition.partition:05d}.parquet"
            written = _write(table, partition, path, lambda n: progress.advance(bar, n))
            progress.advance(bar, (partition.rows or 0) - written)  # those that HAVING hides
            rows += written
            size += path.stat().st_size
    return _Exported(table.name, str(folder), len(table.partitions), rows, size)


def _write(
    table: SavedTable, partition: SavedPartition, path: Path, told: Callable[[int], None]
) -> int:
    """Writes a file whole or not at all; returns its rows."""
    import pyarrow.parquet as pq

    unfinished, rows = path.with_name(f".{path.name}.unfinished"), 0
    try:
        with _on_disk(path), pq.ParquetWriter(unfinished, table.schema(), compression="zstd") as to:
            for group in _groups(table.batches(partition)):
                to.write_table(group)
                rows += group.num_rows
                told(group.num_rows)
        with _on_disk(path):
            unfinished.rename(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return rows


def _groups(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches as tables of the size of a row group."""
    import pyarrow as pa

    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(b.num_rows for b in held) >= _GROUP_ROWS or _size(held) >= _GROUP_BYTES:
            yield pa.Table.from_batches(held)
            held = []
    if held:
        yield pa.Table.from_batches(held)


def _size(batches: Sequence[pa.RecordBatch]) -> int:
    return sum(batch.nbytes for batch in batches)


@contextmanager
def _on_disk(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise error_kind(error)(
            f"{path} cannot be written: {error.strerror or error}.",
            action="give the disk space and the folder permissions, then export again.",
        ) from error


def _show(done: Sequence[_Exported], left_out: dict[str, str], *, as_json: bool) -> None:
    if as_json:
        told = {"ok": True, "tables": [asdict(each) for each in done], "left_out": left_out}
        click.echo(orjson.dumps(told).decode())
        return
    for each in done:
        click.echo(
            f"{each.table}: {each.rows} rows in {each.files} files of {each.bytes} bytes in "
            f"{each.folder}"
        )
    for name, why in left_out.items():
        click.echo(f"{name} is left out: {why}.")
