"""One record to produce, and one set of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

__all__ = ["Event", "Sample"]


@dataclass(frozen=True, slots=True)
class Event:
    """Key and value as bytes: the key as Kafka's string serializer writes it, the value in JSON."""

    key: bytes | None
    value: bytes


@dataclass(frozen=True)
class Sample:
    """A set of example data; `partitions`: of its topic if it must be created."""

    name: str
    topic: str
    partitions: int
    count: int
    events: Callable[[], Iterator[Event]]
