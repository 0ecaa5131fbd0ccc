"""Carry an approved plan out, one topic at a time.

    0 put back what an apply that was cut off has left
    1 everything is still as surveyed, else nothing is done
    2 per topic: settings that stay → measure a restore → write down and set what is temporary →
      roll → wait for the log cleaner → put back → wait until the job is level again

Every step may be cut off: settings that stay are set only where they differ, topics that the same
plan has cleaned before are left alone, and what is temporary is put back by whoever comes next.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from holdfast.compaction.apply.applied import Applied, AppliedTopic, Outcome
from holdfast.compaction.apply.clean_topic import CleanTopic
from holdfast.compaction.apply.ledger import Ledger
from holdfast.compaction.apply.level import JobLevel
from holdfast.compaction.apply.preconditions import check_approved, check_preconditions
from holdfast.compaction.apply.progress import Bounds
from holdfast.compaction.apply.put_back import Hands, TopicOwner, repair
from holdfast.compaction.apply.scratch import RestoreSample, median_partition, sample_restore
from holdfast.compaction.plan.plan import Plan, TopicPlan
from holdfast.compaction.survey.facts import Survey, TopicFacts
from holdfast.errors import CleanerIdle, HoldfastError, Refused, TopicMissing, VolumeFull
from holdfast.transport.cluster.topic_settings import TopicSettings
from holdfast.transport.cluster.view import ClusterView

__all__ = ["Applying", "apply_plan", "hands_of"]


@dataclass(frozen=True)
class Applying:
    """What an apply needs beside the plan.

    Attributes:
        client: librdkafka properties.
        folder: of the run; scratch stores lie in it for a moment.
        bounds: of every wait.
        owners: for topics whose settings a resource keeps.
        tell: is told what is done now.
        save: is given the record after every topic.
    """

    client: Mapping[str, str] = field(repr=False)
    folder: Path
    bounds: Bounds = field(default_factory=Bounds)
    owners: TopicOwner | None = None
    tell: Callable[[str], None] = lambda _: None
    save: Callable[[Applied], None] = lambda _: None


def hands_of(options: Applying) -> Hands:
    """What settings are read and changed with.

    Raises:
        InvalidConfig: the client refuses a property.
    """
    attempt_s = options.bounds.attempt_s
    return Hands(
        ClusterView(options.client, attempt_s),
        TopicSettings(options.client, attempt_s),
        options.owners,
        options.bounds.broker_s,
        options.tell,
    )


def apply_plan(
    plan: Plan,
    survey: Survey,
    options: Applying,
    *,
    approved: str,
    earlier: Applied | None = None,
) -> Applied:
    """Carry `plan` out.

    Args:
        survey: that the plan was made from.
        approved: the hash of the plan that a person has seen.
        earlier: the record of an apply of the same run; what it has done is not done again.

    Raises:
        PreconditionsChanged: nothing was done; survey and plan again.
        CleanerIdle: the cleaner does nothing; what was temporary is put back.
        KafkaUnavailable: brokers stayed away; the ledger says what is open.
        Refused: not allowed, or another apply is at work.
    """
    check_approved(plan, survey, approved)
    hands = hands_of(options)
    topics = [t for t in sorted(plan.topics, key=lambda t: t.order) if not t.nothing]
    repaired = tuple(_repair_first(hands, survey, topics, options))
    gone = check_preconditions(hands, topics)
    before = earlier.topics if earlier is not None and earlier.plan_hash == plan.hash else ()
    record = Applied(plan.run, plan.hash, int(time.time() * 1000), 0.0, repaired)
    run = _Run(hands, survey, options, record, {t.topic: t for t in before})
    return run.through(topics, gone)


def _repair_first(
    hands: Hands, survey: Survey, topics: list[TopicPlan], options: Applying
) -> list[str]:
    jobs = sorted({_facts(survey, t).application_id for t in topics})
    ledgers = [Ledger(options.client, job, options.bounds.attempt_s) for job in jobs]
    return [told for ledger in ledgers for told in repair(hands, ledger)]


class _Run:
    """Owns the record of one apply."""

    def __init__(
        self,
        hands: Hands,
        survey: Survey,
        options: Applying,
        record: Applied,
        before: Mapping[str, AppliedTopic],
    ) -> None:
        self._hands = hands
        self._survey = survey
        self._options = options
        self._record = record
        self._before = before
        self._began = time.monotonic()

    def through(self, topics: list[TopicPlan], gone: set[str]) -> Applied:
        """Every topic by its order; the record is saved after each, and when it is cut off."""
        there = [_facts(self._survey, t) for t in topics if t.topic not in gone]
        level = JobLevel(self._options.client, there)
        try:
            for n, topic in enumerate(topics, start=1):
                last = n == len(topics)
                self._add(self._one(topic, gone, None if last else level))
        except BaseException as error:
            told = error.fact if isinstance(error, HoldfastError) else "interrupted"
            self._keep(replace(self._record, cut_off=told))
            raise
        self._keep(self._record)
        return self._record

    def _one(self, topic: TopicPlan, gone: set[str], level: JobLevel | None) -> AppliedTopic:
        known = self._before.get(topic.topic)
        if topic.topic in gone:
            return _gone(topic)
        if known is not None and known.done:
            return known
        try:
            done = self._change(topic)
            if topic.temporary:
                done = self._clean(topic, done)
        except TopicMissing:
            return _gone(topic)
        except CleanerIdle as error:
            self._add(replace(_nothing(topic), outcome=Outcome.FAILED, note=error.fact))
            raise
        if level is None or not topic.temporary:
            return done
        waited_s, note = level.await_level(self._options.bounds.level_s, self._options.tell)
        return replace(done, level_s=waited_s, note=" ".join(filter(None, [done.note, note])))

    def _change(self, topic: TopicPlan) -> AppliedTopic:
        """The settings that stay, where they are not so already."""
        own = self._hands.own(topic.topic)
        changes = {c.name: c.after for c in topic.changes if own.get(c.name) != c.after}
        if changes:
            self._options.tell(f"changing {', '.join(changes)} of {topic.topic}")
        self._hands.alter(topic.topic, topic.owner, changes)
        outcome = Outcome.CHANGED if topic.changes else Outcome.NOTHING
        return replace(_nothing(topic), outcome=outcome, changed=changes)

    def _clean(self, topic: TopicPlan, done: AppliedTopic) -> AppliedTopic:
        facts, options = _facts(self._survey, topic), self._options
        sample, note = self._measured(facts)
        one = CleanTopic(self._hands, options.client, self._survey, facts, options.bounds)
        cleaned = one.run(topic, self._record.plan_hash)
        return replace(
            cleaned, outcome=Outcome.CLEANED, changed=done.changed, restore=sample, note=note
        )

    def _measured(self, facts: TopicFacts) -> tuple[RestoreSample | None, str]:
        """A restore, or why there is none: no cleaning fails for want of a measurement."""
        options, partition = self._options, median_partition(facts)
        try:
            sample = sample_restore(options.client, facts, partition, options.folder, options.tell)
        except TopicMissing:
            raise
        except (VolumeFull, Refused) as error:
            return None, f"No restore was measured: {error.fact}"
        return sample, ""

    def _add(self, topic: AppliedTopic) -> None:
        self._keep(replace(self._record, topics=(*self._record.topics, topic)))

    def _keep(self, record: Applied) -> None:
        self._record = replace(record, seconds=time.monotonic() - self._began)
        reached = {topic.topic for topic in record.topics}
        # What an earlier apply did is still done when this one is cut off before it gets there.
        ahead = tuple(t for t in self._before.values() if t.topic not in reached and t.done)
        self._options.save(replace(self._record, topics=(*record.topics, *ahead)))


def _facts(survey: Survey, topic: TopicPlan) -> TopicFacts:
    found = survey.topic(topic.topic)
    if found is None:
        raise Refused(
            f"The survey of run {survey.run} knows no topic {topic.topic}, its plan does.",
            cause="the files of two runs were mixed",
            action="run `holdfast compaction survey` and `plan` again",
        )
    return found


def _nothing(topic: TopicPlan) -> AppliedTopic:
    return AppliedTopic(topic.topic, Outcome.NOTHING, {}, {})


def _gone(topic: TopicPlan) -> AppliedTopic:
    note = "It was deleted after the plan was made; nothing was done to it."
    return replace(_nothing(topic), outcome=Outcome.GONE, note=note)
