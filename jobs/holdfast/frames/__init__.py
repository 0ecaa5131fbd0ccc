"""Frames: the rows of saved tables as columns, for Spark, Arrow and Parquet.

    from holdfast.frames import HoldfastSource

    spark.dataSource.register(HoldfastSource)
    spark.read.format("holdfast").options(
        uri="s3://bucket/snapshots", savepoint="orders/before-2.0", table="TOTALS"
    ).load()

`saved_tables` reads them without Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.frames.datasource import HoldfastSource

__all__ = ["HoldfastSource"]


def __getattr__(name: str) -> object:
    """Imports the data source on first use: saved tables can be read without Spark."""
    if name == "HoldfastSource":
        from holdfast.frames.datasource import HoldfastSource

        return HoldfastSource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
