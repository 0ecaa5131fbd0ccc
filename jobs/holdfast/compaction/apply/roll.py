"""Roll the active segment of partitions that nobody writes to.

No cleaner touches an active segment, and a broker begins a new one only when something is
appended.  Where the job appends nothing, one record is appended inside a transaction that is
aborted: it moves the segment, no read_committed reader ever sees it, and the cleaner drops it.

    begin → one record per partition → delivered → abort → no transaction open

A kill in between leaves the transaction to the broker, which ends it after `_TIMEOUT_MS`; until
then a store of that partition that is opened waits (`StateTask.open`), and the next roll ends it
at once, for it has the same transactional id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.state.changelog import DATA_PREFIX
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.producer import TransactionalProducer
from holdfast.types.ids import compaction_transactional_id

__all__ = ["ROLL_KEY", "roll"]

# A tombstone of a row that no table has: harmless even to who reads aborted records.
ROLL_KEY = DATA_PREFIX + b"\x00holdfast.compaction.roll"
_TIMEOUT_MS = 5_000
_ENDED_S = 30.0


def roll(
    client: Mapping[str, str], application_id: str, topic: str, partitions: Sequence[int]
) -> None:
    """Append one aborted record to each partition; `segment.ms` must have been lowered before.

    Raises:
        Fenced: another apply of the same job is at work.
        HangingTransaction: the broker does not end the transaction.
        KafkaUnavailable, TopicMissing, Refused: nothing was appended, or it is aborted later.
    """
    if not partitions:
        return
    with TransactionalProducer(
        client, compaction_transactional_id(application_id), _TIMEOUT_MS
    ) as producer:
        producer.init()
        producer.begin()
        for partition in partitions:
            # Reported one by one: no commit will say which of them did not arrive.
            producer.send_one(topic, partition, ROLL_KEY, None, ())
        producer.deliver()
        producer.abort()
    admin = Admin(client)
    for partition in partitions:
        admin.await_ended(topic, partition, _ENDED_S)
