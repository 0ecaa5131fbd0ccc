"""One cleaning of one topic: temporary settings, roll, wait, and everything put back."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

from holdfast.compaction.apply.applied import AppliedTopic, Outcome
from holdfast.compaction.apply.ledger import Entry, Ledger
from holdfast.compaction.apply.preconditions import final_value
from holdfast.compaction.apply.progress import Bounds, Cleaned, Goal, await_cleaned
from holdfast.compaction.apply.put_back import Hands, with_temporary
from holdfast.compaction.apply.roll import roll
from holdfast.compaction.plan.plan import TopicPlan
from holdfast.compaction.survey.facts import Survey, TopicFacts
from holdfast.compaction.survey.log_watch import LogWatch
from holdfast.transport.cluster.admin import Admin

__all__ = ["CleanTopic"]

_SEGMENT_MS = "segment.ms"
_BACKOFF = "log.cleaner.backoff.ms"
_SEGMENT_MAX_S = 60.0
_SKEW_S = 2.0  # brokers' clocks are not this machine's
_OWN_ROLL_S = 3.0  # a job that writes in this time rolls by itself
_RESTS = 3  # times the cleaners' pause, until a log is said to rest
_SLOWER = 4.0  # times as long as predicted a cleaner may work without a sign


class CleanTopic:
    """Owns one topic while the log cleaner is made to go over it."""

    def __init__(
        self,
        hands: Hands,
        client: Mapping[str, str],
        survey: Survey,
        facts: TopicFacts,
        bounds: Bounds,
    ) -> None:
        self._hands = hands
        self._client = dict(client)
        self._survey = survey
        self._facts = facts
        self._bounds = bounds
        self._admin = Admin(client, bounds.attempt_s)
        self._watch = LogWatch(client, survey.cluster_id, facts.topic)

    def run(self, topic: TopicPlan, plan_hash: str) -> AppliedTopic:
        """Everything from the ledger's entry to its end; returns bytes before and after.

        Raises:
            CleanerIdle: the cleaner does nothing; the settings are put back.
            TopicMissing: the topic was deleted meanwhile.
            KafkaUnavailable, Refused: see `with_temporary`.
        """
        temporary = {change.name: change.after for change in topic.temporary}
        entry = Entry(
            topic.topic,
            topic.precondition.topic_id,
            temporary,
            {name: final_value(topic, name) for name in temporary},
            plan_hash,
            topic.owner,
            int(time.time() * 1000),
        )
        job = self._facts.application_id
        ledger = Ledger(self._client, job, self._bounds.attempt_s)
        ends = self._ends()
        before = {p: look.bytes for p, look in self._hands.patiently(self._watch).items()}
        with with_temporary(self._hands, ledger, entry):
            rolled = self._roll(topic, ends)
            cleaned = self._await(topic, ends, before)
        return replace(
            AppliedTopic(topic.topic, Outcome.CLEANED, {}, temporary),
            rolled=tuple(rolled),
            bytes_before=sum(before.values()),
            bytes_after=sum(cleaned.bytes.values()),
            ends_before=ends,
            cleaner_s=cleaned.seconds,
            exact=cleaned.exact,
        )

    def _roll(self, topic: TopicPlan, ends: Mapping[int, int]) -> list[int]:
        """Rolls what nobody else does: the partitions that do not grow."""
        if not topic.roll:
            return []
        time.sleep(self._until_rollable_s())
        first = self._ends()
        time.sleep(_OWN_ROLL_S)
        second = self._ends()
        quiet = [p for p in sorted(ends) if second.get(p, 0) == first.get(p, 0) > 0]
        self._hands.tell(f"rolling {len(quiet)} segments of {topic.topic} that nobody writes to")
        job = self._facts.application_id
        self._hands.patiently(lambda: roll(self._client, job, topic.topic, quiet))
        return quiet

    def _until_rollable_s(self) -> float:
        """Until the first record of every active segment is older than `segment.ms`."""
        segment_s = int(self._hands.own(self._facts.topic).get(_SEGMENT_MS, 0)) / 1000
        now_s = time.time()
        ages = [
            now_s - p.last_write_ms / 1000 if p.last_write_ms >= 0 else 0.0
            for p in self._facts.partitions
        ]
        return max(0.0, min(_SEGMENT_MAX_S, segment_s) - min(ages, default=0.0) + _SKEW_S)

    def _ends(self) -> dict[int, int]:
        return self._hands.patiently(lambda: self._admin.high_watermarks(self._facts.topic))

    def _await(
        self, topic: TopicPlan, ends: Mapping[int, int], before: Mapping[int, int]
    ) -> Cleaned:
        to = ends if topic.roll else self._hands.patiently(self._watch.active_bases)
        expected = {p.partition: p.bytes_after for p in topic.partitions}
        goals = [Goal(p, to.get(p), count, expected.get(p, count)) for p, count in before.items()]
        return await_cleaned(
            topic.topic,
            goals,
            self._watch,
            bounds=replace(
                self._bounds,
                idle_s=max(self._bounds.idle_s, _SLOWER * topic.cleaner_s),
                rest_s=min(self._bounds.rest_s, self._pause_s()),
            ),
            trouble=self._watch.trouble,
            tell=self._hands.tell,
        )

    def _pause_s(self) -> float:
        """How long a log has to rest: some times what the slowest cleaner sleeps."""
        found = [b.setting(_BACKOFF) for b in self._survey.brokers]
        return _RESTS * max((int(s.value) / 1000 for s in found if s is not None), default=15.0)
