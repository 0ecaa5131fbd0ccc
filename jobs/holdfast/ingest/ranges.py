"""The offsets that one ingest task reads: planned by the driver, sent to an executor."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

__all__ = ["KafkaRange"]


@dataclass
class KafkaRange(InputPartition):
    """Offsets of one topic partition; `start` inclusive, `end` exclusive.

    `fresh`: the topic partition is new to the query, it begins wherever its log does.
    """

    partition: int
    start: int
    end: int
    fresh: bool = False
    side: int = 0
