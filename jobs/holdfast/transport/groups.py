"""Reading the committed offsets of a consumer group, without being a member of it.

Not with the admin client: its request crashes the process when the coordinator has moved or is not
there yet (librdkafka #5040).  A consumer that never subscribes is no member.  To a principal that
may not see the group it only says that time is over; why lies among its events.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from holdfast.transport.errors import kafka_error

__all__ = ["committed_offsets"]

_SLICE_S = 1.0
_EVENTS = 10


def committed_offsets(
    consumer: Consumer, places: Sequence[TopicPartition], limit_s: float
) -> list[TopicPartition]:
    """What the consumer's group has committed; a negative offset where it has nothing.

    Args:
        consumer: without subscription and assignment.

    Raises:
        KafkaException: no answer in time, or the principal may not see the group.
    """
    deadline = time.monotonic() + limit_s
    while True:
        left_s = max(deadline - time.monotonic(), 0.0)
        try:
            return consumer.committed(list(places), timeout=min(_SLICE_S, left_s))
        except KafkaException as error:
            refused = _refused(consumer)
            if refused is not None:
                raise KafkaException(refused) from error
            if kafka_error(error).code() != KafkaError._TIMED_OUT or left_s <= _SLICE_S:
                raise


def _refused(consumer: Consumer) -> KafkaError | None:
    """Why the coordinator of the group is not told, if it is a matter of rights."""
    errors = (event.error() for event in consumer.consume(_EVENTS, 0))
    refused = KafkaError.GROUP_AUTHORIZATION_FAILED
    return next((e for e in errors if e is not None and e.code() == refused), None)
