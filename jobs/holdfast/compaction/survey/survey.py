"""Survey: find out what every changelog costs, reading little and changing nothing.

topics that end in `-changelog`
  → the last commit marker says whose they are; without one they are left alone
  → sizes, offsets, settings, replicas: asked of the brokers, for all topics at once
  → records: a sample of each partition    rows, restores, lag: the jobs' own word
  → segments and checkpoints: the log cleaner's files, where they lie on this machine
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.compaction.survey.cleaner import cleaner_state, given_up
from holdfast.compaction.survey.facts import BrokerFacts, Setting, Survey, TopicFacts
from holdfast.compaction.survey.ground import CHANGELOG, Ground, ground_of
from holdfast.compaction.survey.jobs import JobSeen
from holdfast.compaction.survey.topic import TopicSurvey
from holdfast.errors import DataLoss, Refused, TopicMissing
from holdfast.transport.cluster.topic_settings import SettingValue, TopicSettings
from holdfast.transport.cluster.view import ClusterView
from holdfast.types.ids import consumer_group

__all__ = ["SurveyOptions", "take_survey"]

_CLEANER = "log.cleaner."
_GROUPS_MAX = 500  # each is asked alone


@dataclass(frozen=True)
class SurveyOptions:
    """What is surveyed, and how closely.

    Attributes:
        run: the name of the run.
        names: application ids; empty: all whose changelogs are found.
        exact: read every record, which takes as long as restoring every table.
        sample_records: read at most about so many of each topic.
    """

    run: str
    names: Sequence[str] = ()
    exact: bool = False
    sample_records: int = 20_000


@dataclass
class _Notes:
    """What could not be found out, in the order in which it was met."""

    texts: list[str] = field(default_factory=list)

    def add(self, text: str) -> None:
        if text not in self.texts:
            self.texts.append(text)


def take_survey(
    client: Mapping[str, str],
    jobs: Callable[[Sequence[str]], Sequence[JobSeen]],
    options: SurveyOptions,
    tell: Callable[[str], None] = lambda _: None,
) -> Survey:
    """Everything about the changelogs of a cluster, or of some applications.

    Args:
        client: librdkafka properties.
        jobs: what the drivers of some application ids say; what they do not is sampled or unknown.
        tell: is told what is done now.

    Raises:
        Refused: a named application has no changelog, or an ACL is missing, which is named.
        KafkaUnavailable: no broker answered in time.
    """
    began, notes = time.monotonic(), _Notes()
    tell("looking for changelogs")
    view = ClusterView(client)
    cluster_id, names = view.cluster()
    candidates = [n for n in names if n.endswith(CHANGELOG) and _wanted(n, options.names)]
    ground = ground_of(client, cluster_id, candidates)
    surveys = _ours(client, ground, options, tell, notes)
    read = _readers(view, ground, surveys, notes)
    seen = jobs(sorted({s.application_id for s in surveys}))
    later_ends = view.ends(ground.ends)
    gone = _gone(view, {t for s in surveys for t in s.sources} - set(names), notes)
    topics: list[TopicFacts] = []
    for survey in surveys:
        tell(f"surveying {survey.topic}")
        try:
            facts = survey.facts(seen, later_ends, gone, read.get(survey.topic, ()))
        except (TopicMissing, DataLoss) as gone:
            notes.add(f"{survey.topic} was deleted or cut during the survey: {gone.fact}")
            continue
        topics.append(facts)
        notes.texts.extend([*survey.notes, *_unknowns(facts)])
    return Survey(
        options.run,
        cluster_id,
        ground.now_ms,
        time.monotonic() - began,
        _brokers(client, ground, [t.topic for t in topics], notes),
        tuple(topics),
        sum(s.records_read for s in surveys),
        tuple(notes.texts),
    )


def _wanted(topic: str, names: Sequence[str]) -> bool:
    return not names or any(topic.startswith(f"{name}-") for name in names)


def _ours(
    client: Mapping[str, str],
    ground: Ground,
    options: SurveyOptions,
    tell: Callable[[str], None],
    notes: _Notes,
) -> list[TopicSurvey]:
    """The topics that a commit marker proves to be Holdfast's, and asked for."""
    found = []
    for topic in ground.states:
        tell(f"reading the last commit markers of {topic}")
        survey = TopicSurvey(
            client, ground, topic, None if options.exact else options.sample_records
        )
        try:
            known = survey.known()
        except Refused as refused:
            if options.names and not isinstance(refused, TopicMissing | DataLoss):
                raise
            notes.add(f"{topic} cannot be read: {refused.fact}")
            continue
        if not known:
            notes.add(f"{topic} holds no commit marker: it is not Holdfast's, or empty")
        elif not options.names or survey.application_id in options.names:
            found.append(survey)
    missing = sorted(set(options.names) - {s.application_id for s in found})
    if missing:
        topics = ", ".join(f"{name}-*" for name in missing)
        raise Refused(
            f"No changelog of {', '.join(missing)} was found among {len(ground.states)} topics.",
            cause="the application id is another one, the job has committed nothing yet, or the "
            f"principal lacks the ACL DESCRIBE on topic {topics}.",
            action="run `holdfast compaction survey` without names to see what there is.",
        )
    return found


def _readers(
    view: ClusterView, ground: Ground, surveys: Sequence[TopicSurvey], notes: _Notes
) -> dict[str, tuple[str, ...]]:
    """Consumer groups with offsets on the changelogs; Holdfast's own have none there."""
    own = {consumer_group(s.application_id, s.query_id) for s in surveys}
    topics = {s.topic for s in surveys}
    places = [place for place in ground.starts if place[0] in topics]
    found: dict[str, tuple[str, ...]] = {}
    try:
        groups = [g for g in view.groups() if g not in own] if places else []
        for group in groups[:_GROUPS_MAX]:
            for topic in view.topics_read_by(group, places):
                found[topic] = (*found.get(topic, ()), group)
    except Refused as refused:
        notes.add(f"other readers of the changelogs are unknown: {refused.fact} {refused.cause}")
        return found
    if len(groups) > _GROUPS_MAX:
        notes.add(f"of {len(groups)} consumer groups {_GROUPS_MAX} were asked what they read")
    return found


def _gone(view: ClusterView, unseen: set[str], notes: _Notes) -> frozenset[str]:
    """Those of `unseen` that do not exist; others may only be hidden from this principal."""
    found = set()
    for source in sorted(unseen):
        try:
            view.topics([source])
        except TopicMissing:
            found.add(source)
        except Refused as refused:
            notes.add(f"whether source topic {source} still exists is unknown: {refused.cause}")
    return frozenset(found)


def _unknowns(facts: TopicFacts) -> list[str]:
    """What of a topic a plan would need and nobody could tell."""
    notes = []
    if any(not p.live_keys.known for p in facts.partitions if p.leader >= 0):
        notes.append(
            f"{facts.topic}: its live keys are unknown, for no job says how many rows it has; "
            "--status or --exact finds out"
        )
    if facts.windowed and not facts.retention_ms:
        notes.append(f"{facts.topic}: no job says how long its windows are kept")
    leaderless = [str(p.partition) for p in facts.partitions if p.leader < 0]
    if leaderless:
        notes.append(f"{facts.topic}: partition {', '.join(leaderless)} has no leader")
    return notes


def _brokers(
    client: Mapping[str, str], ground: Ground, changelogs: Sequence[str], notes: _Notes
) -> tuple[BrokerFacts, ...]:
    try:
        settings: Mapping[int, Mapping[str, SettingValue]] = TopicSettings(client).of_brokers()
    except Refused as refused:
        notes.add(f"the brokers' cleaner settings are unknown: {refused.fact} {refused.cause}")
        settings = {d.broker: {} for d in ground.sizes.dirs}
    return tuple(
        _broker(ground, broker, found, changelogs) for broker, found in sorted(settings.items())
    )


def _broker(
    ground: Ground, broker: int, found: Mapping[str, SettingValue], changelogs: Sequence[str]
) -> BrokerFacts:
    cleaner = {name: found[name] for name in sorted(found) if name.startswith(_CLEANER)}
    views = [view for (owner, _), view in ground.views.items() if owner == broker]
    in_force = {name: value.value for name, value in cleaner.items()}
    state, evidence = cleaner_state(in_force, views, changelogs)
    return BrokerFacts(
        broker,
        tuple(Setting(name, value.value, value.source) for name, value in cleaner.items()),
        state,
        evidence,
        ground.sizes.free_bytes(broker),
        given_up(views, changelogs),
    )
