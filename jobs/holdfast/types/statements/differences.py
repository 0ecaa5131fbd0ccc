"""The property by which statements answer as ksqlDB does where Holdfast differs on purpose."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["DIFFERENCES", "as_ksqldb", "not_copartitioned"]

DIFFERENCES = "ksqldb.differences"


def as_ksqldb(properties: Mapping[str, str]) -> bool:
    """Whether a statement with these properties answers as ksqlDB does."""
    return properties.get(DIFFERENCES, "").lower() == "none"


def not_copartitioned(left: tuple[str, int], right: tuple[str, int]) -> str:
    """ksqlDB's words for a join of topics with different numbers of partitions.

    Args:
        left: the name of the first source, and how many partitions its topic has.
        right: the same of the source that joins.
    """
    (name, count), (other, others) = left, right
    return (
        f"Can't join `{name}` with `{other}` since the number of partitions don't match. "
        f"`{name}` partitions = {count}; `{other}` partitions = {others}. Please repartition "
        "either one so that the number of partitions match."
    )
