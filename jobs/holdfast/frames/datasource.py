"""A Python data source of Spark: `spark.read.format("holdfast")` reads saved tables.

Options:
    uri: the place, the value of `snapshot.uri`.
    table: its name, upper-case unless the statements quote it.
    savepoint: APPLICATION/NAME; or application and statements (path of the job's SQL file), to
        read the newest snapshots of a running job.
    functions: Python files of user-defined functions, separated by commas; executors read them
        under the same paths.
    schema.registry.url and the like: the job's properties, where statements list no columns.

Each state partition is one input partition, which the task fetches to its executor's disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from holdfast.config.load import Origin, build_settings
from holdfast.errors import InvalidConfig, InvalidStatement
from holdfast.frames.saved_tables import (
    SavedPartition,
    SavedTable,
    SavedTables,
    of_savepoint,
    of_snapshots,
)
from holdfast.sql.parse.script import did_you_mean
from holdfast.transport.registry import registry_of
from holdfast.types.columns.schema import Column
from holdfast.types.columns.schemas import Schemas

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = ["HoldfastSource"]

_OPTIONS = ("uri", "table", "savepoint", "application", "statements", "functions")
_REGISTRY = "schema.registry."  # what properties of the registry begin with


class HoldfastSource(DataSource):
    """The format `holdfast`; register it with `spark.dataSource.register`."""

    @classmethod
    def name(cls) -> str:
        return "holdfast"

    def schema(self) -> str:
        """Spark's DDL of the table's columns."""
        return ", ".join(map(_ddl, _opened(self.options).columns))

    def reader(self, schema: StructType) -> DataSourceReader:
        return _Reader(_opened(self.options))


class _Reader(DataSourceReader):
    """Reads one table; its state partitions are fixed here, so that all tasks read one state."""

    def __init__(self, table: SavedTable) -> None:
        self._table = table

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(partition) for partition in self._table.partitions]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        saved = partition.value
        # Spark makes one partition without a value if there are none.
        return self._table.batches(saved) if isinstance(saved, SavedPartition) else iter(())


def _ddl(column: Column) -> str:
    return f"`{column.name.replace('`', '``')}` {column.type.spark()}"


def _opened(options: Mapping[str, str]) -> SavedTable:
    _check(options)
    return _tables(options).table(options["table"])


def _tables(options: Mapping[str, str]) -> SavedTables:
    uri = options["uri"]
    functions = [part.strip() for part in options.get("functions", "").split(",") if part.strip()]
    if "savepoint" in options:
        return of_savepoint(uri, options["savepoint"], functions, _registry(options))
    text = _read(Path(options["statements"]))
    return of_snapshots(uri, options["application"], text, functions, _registry(options))


def _registry(options: Mapping[str, str]) -> Schemas | None:
    """The registry that the options name.

    Raises:
        InvalidConfig: one of its properties is wrong.
    """
    given = {name: value for name, value in options.items() if name.startswith(_REGISTRY)}
    settings = build_settings([Origin("option", given)], options.get("application", ""))
    return registry_of(settings.registry.client())


def _check(options: Mapping[str, str]) -> None:
    """Compares the given options with those there are.

    Raises:
        InvalidConfig: an option is unknown or missing, or options contradict each other.
    """
    for name in options:
        if name not in _OPTIONS and not name.startswith(_REGISTRY):
            hint = did_you_mean(name, _OPTIONS) or f"the options are {', '.join(_OPTIONS)}."
            raise InvalidConfig(f"The format holdfast has no option {name}.", action=hint)
    live = {"application", "statements"} & set(options)
    if "savepoint" in options and live:
        raise InvalidConfig(
            f"The options savepoint and {' and '.join(sorted(live))} exclude each other.",
            action="give savepoint, or application and statements for the newest snapshots.",
        )
    needed = ("application", "statements") if live else ("savepoint",)
    lacking = [name for name in ("uri", "table", *needed) if not options.get(name)]
    if lacking:
        raise InvalidConfig(
            f"The format holdfast needs the option {' and '.join(lacking)}.",
            action="give uri, table, and savepoint (APPLICATION/NAME) or application and "
            "statements (path of the job's SQL file).",
        )


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidStatement(
            f"The statements in {path} cannot be read: {error}.",
            action="give the path of the job's SQL file, on the machine of the driver.",
        ) from error
