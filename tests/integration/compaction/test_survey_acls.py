"""The error for a principal without a right names the missing ACL; on a separate broker."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.compaction.apply.ledger import Ledger
from holdfast.compaction.plan.plan import Change, TopicPlan
from holdfast.compaction.survey.facts import CleanerState, Survey
from holdfast.compaction.survey.survey import SurveyOptions, take_survey
from holdfast.errors import CleanerIdle, Refused
from holdfast.transport.cluster.topic_settings import TopicSettings
from holdfast.types.acls import Binding, Operation, Resource
from tests.integration.compaction.applying import (
    QUICK,
    applied,
    applying,
    only,
    own_settings,
    planned,
)
from tests.integration.compaction.changelogs import make_changelog
from tests.support.servers.secured_kafka import SecuredKafka, Way

_APP = "guarded"
_TOPIC = f"{_APP}-ctas_t-changelog"


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    """With a changelog, and without a cleaner."""
    folder = tmp_path_factory.mktemp("secured")
    with SecuredKafka(folder, {"log.cleaner.enable": "false"}) as kafka:
        make_changelog(kafka.master, _APP, keys=10, updates=20).close()
        yield kafka


@pytest.fixture(scope="module")
def clerk(kafka: SecuredKafka) -> dict[str, str]:
    """The client of somebody who may do what was granted."""
    return kafka.client("clerk", Way.PLAIN)


def _survey(client: dict[str, str]) -> Survey:
    return take_survey(client, lambda _: [], SurveyOptions("r", [_APP]))


def test_every_acl_that_is_missing_is_named(kafka: SecuredKafka, clerk: dict[str, str]) -> None:
    topic, cluster = (Resource.TOPIC, _TOPIC), (Resource.CLUSTER, "kafka-cluster")
    steps = (
        (f"DESCRIBE on topic {_APP}-*", topic, Operation.DESCRIBE),
        ("DESCRIBE on the cluster", cluster, Operation.DESCRIBE),
        (f"DESCRIBE_CONFIGS on topic {_TOPIC}", topic, Operation.DESCRIBE_CONFIGS),
        ("READ", topic, Operation.READ),
    )
    for missing, (kind, name), operation in steps:
        with pytest.raises(Refused, match=re.escape(missing)) as refused:
            _survey(clerk)
        assert "ACL" in refused.value.cause
        kafka.grant("clerk", [Binding(kind, name, operation)])
    survey = _survey(clerk)
    (changelog,) = survey.topics
    assert changelog.topic == _TOPIC
    assert not changelog.orphaned  # its source is there, though the clerk may not see it
    assert any(f"whether source topic {_APP}-in still exists" in n for n in survey.notes)
    assert any("DESCRIBE_CONFIGS on the cluster" in note for note in survey.notes)


def test_changing_settings_takes_another_acl(clerk: dict[str, str]) -> None:
    with pytest.raises(Refused, match=f"ALTER_CONFIGS on topic {_TOPIC}"):
        TopicSettings(clerk).alter(_TOPIC, {"segment.ms": "1000"})


def test_an_apply_names_the_acls_it_lacks_and_puts_back(
    kafka: SecuredKafka, clerk: dict[str, str], tmp_path: Path
) -> None:
    master = kafka.master
    survey = _survey(master)
    plan = only(planned(survey), _temporary_only)
    before = own_settings(master, _TOPIC)
    ledger = (Resource.TOPIC, f"{_APP}-compaction")
    changelog = (Resource.TOPIC, _TOPIC)
    transactions = (Resource.TRANSACTIONAL_ID, f"{_APP}-compaction")
    steps = (
        (f"DESCRIBE on topic {ledger[1]}", ledger, Operation.DESCRIBE),
        (f"CREATE on topic {ledger[1]}", ledger, Operation.CREATE),
        (f"WRITE on topic {ledger[1]}", ledger, Operation.WRITE),
        (f"READ and DESCRIBE on topic {ledger[1]}", ledger, Operation.READ),
        (f"ALTER_CONFIGS on topic {_TOPIC}", changelog, Operation.ALTER_CONFIGS),
        (f"WRITE on transactional id {transactions[1]}", transactions, Operation.WRITE),
        (f"WRITE on topic {_TOPIC}", changelog, Operation.WRITE),
    )
    impatient = applying(clerk, tmp_path, replace(QUICK, idle_s=3.0))
    for missing, (kind, name), operation in steps:
        with pytest.raises(Refused) as refused:
            applied(plan, survey, impatient)
        assert refused.value.cause == f"the principal lacks the ACL {missing}.", refused.value
        assert own_settings(master, _TOPIC) == before
        kafka.grant("clerk", [Binding(kind, name, operation)])
    with pytest.raises(CleanerIdle):  # it is switched off; the rights are enough
        applied(plan, survey, impatient)
    assert own_settings(master, _TOPIC) == before
    assert Ledger(master, _APP).open_entries() == []


def _temporary_only(topic: TopicPlan) -> TopicPlan:
    changes = (
        Change("min.cleanable.dirty.ratio", None, "0.01"),
        Change("segment.ms", None, "100"),
    )
    before = replace(topic.precondition, settings={change.name: None for change in changes})
    return replace(topic, changes=(), temporary=changes, roll=True, precondition=before)


def test_a_cleaner_that_is_switched_off_is_seen(kafka: SecuredKafka) -> None:
    (broker,) = _survey(kafka.master).brokers
    assert (broker.cleaner, broker.evidence) == (CleanerState.OFF, "log.cleaner.enable=false")
