"""The error for a principal without a right names the missing ACL; on a separate broker."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its stubs re-export nothing
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from holdfast.compaction.apply.ledger import Ledger
from holdfast.compaction.plan.plan import Change, TopicPlan
from holdfast.compaction.survey.facts import CleanerState, Survey
from holdfast.compaction.survey.survey import SurveyOptions, take_survey
from holdfast.errors import CleanerIdle, Refused
from holdfast.local import broker as broker_module
from holdfast.local.broker import LocalKafka
from holdfast.local.broker_files import server_properties
from holdfast.local.probe import HOST, free_port
from holdfast.transport.topic_settings import TopicSettings
from tests.integration.compaction.applying import (
    QUICK,
    applied,
    applying,
    only,
    own_settings,
    planned,
)
from tests.integration.compaction.changelogs import make_changelog

_APP = "guarded"
_TOPIC = f"{_APP}-ctas_t-changelog"


def _guarded(sasl_port: int) -> Callable[[Path, int, int], str]:
    """Settings of a broker that asks who is there; nobody in particular may do everything."""

    def properties(data: Path, port: int, controller_port: int) -> str:
        listeners = f"PLAINTEXT://{HOST}:{port},SASL_PLAINTEXT://{HOST}:{sasl_port}"
        more = {
            "listeners": f"{listeners},CONTROLLER://{HOST}:{controller_port}",
            "advertised.listeners": listeners,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,"
            "SASL_PLAINTEXT:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": "org.apache.kafka.common."
            'security.plain.PlainLoginModule required user_clerk="secret";',
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "log.cleaner.enable": "false",
        }
        return server_properties(data, port, controller_port) + "".join(
            f"{key}={value}\n" for key, value in more.items()
        )

    return properties


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, str], ...]]:
    """Client properties of a principal with all rights, and of a clerk with granted rights."""
    sasl_port = free_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(broker_module, "server_properties", _guarded(sasl_port))
        kafka = LocalKafka(tmp_path_factory.mktemp("guarded"))
        try:
            master = {"bootstrap.servers": kafka.start(port=0).bootstrap_servers}
            make_changelog(master, _APP, keys=10, updates=20).close()
            yield master, _clerk(sasl_port)
        finally:
            kafka.wipe()


def _clerk(port: int) -> dict[str, str]:
    return {
        "bootstrap.servers": f"{HOST}:{port}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "clerk",
        "sasl.password": "secret",
    }


def _grant(master: dict[str, str], kind: ResourceType, name: str, operation: AclOperation) -> None:
    binding = AclBinding(
        kind, name, ResourcePatternType.LITERAL, "User:clerk", "*", operation,
        AclPermissionType.ALLOW,
    )  # fmt: skip
    admin = AdminClient({**master})  # kept: its futures end with it
    for done in admin.create_acls([binding]).values():
        done.result()
    wanted = AclBindingFilter(
        kind, name, ResourcePatternType.LITERAL, "User:clerk", "*", operation,
        AclPermissionType.ALLOW,
    )  # fmt: skip
    deadline = time.monotonic() + 30
    while not admin.describe_acls(wanted).result():  # the controller has it before the broker
        assert time.monotonic() < deadline, f"{binding} is not in force"
        time.sleep(0.02)


def _survey(client: dict[str, str]) -> Survey:
    return take_survey(client, lambda _: [], SurveyOptions("r", [_APP]))


def test_every_acl_that_is_missing_is_named(clients: tuple[dict[str, str], ...]) -> None:
    master, clerk = clients
    topic, cluster = (ResourceType.TOPIC, _TOPIC), (ResourceType.BROKER, "kafka-cluster")
    steps = (
        (f"DESCRIBE on topic {_APP}-*", topic, AclOperation.DESCRIBE),
        ("DESCRIBE on the cluster", cluster, AclOperation.DESCRIBE),
        (f"DESCRIBE_CONFIGS on topic {_TOPIC}", topic, AclOperation.DESCRIBE_CONFIGS),
        ("READ", topic, AclOperation.READ),
    )
    for missing, (kind, name), operation in steps:
        with pytest.raises(Refused, match=re.escape(missing)) as refused:
            _survey(clerk)
        assert "ACL" in refused.value.cause
        _grant(master, kind, name, operation)
    survey = _survey(clerk)
    (changelog,) = survey.topics
    assert changelog.topic == _TOPIC
    assert not changelog.orphaned  # its source is there, though the clerk may not see it
    assert any(f"whether source topic {_APP}-in still exists" in n for n in survey.notes)
    assert any("DESCRIBE_CONFIGS on the cluster" in note for note in survey.notes)


def test_changing_settings_takes_another_acl(clients: tuple[dict[str, str], ...]) -> None:
    _, clerk = clients
    with pytest.raises(Refused, match=f"ALTER_CONFIGS on topic {_TOPIC}"):
        TopicSettings(clerk).alter(_TOPIC, {"segment.ms": "1000"})


def test_an_apply_names_the_acls_it_lacks_and_puts_back(
    clients: tuple[dict[str, str], ...], tmp_path: Path
) -> None:
    master, clerk = clients
    survey = _survey(master)
    plan = only(planned(survey), _temporary_only)
    before = own_settings(master, _TOPIC)
    ledger = (ResourceType.TOPIC, f"{_APP}-compaction")
    changelog = (ResourceType.TOPIC, _TOPIC)
    transactions = (ResourceType.TRANSACTIONAL_ID, f"{_APP}-compaction")
    steps = (
        (f"DESCRIBE on topic {ledger[1]}", ledger, AclOperation.DESCRIBE),
        (f"CREATE on topic {ledger[1]}", ledger, AclOperation.CREATE),
        (f"WRITE on topic {ledger[1]}", ledger, AclOperation.WRITE),
        (f"READ and DESCRIBE on topic {ledger[1]}", ledger, AclOperation.READ),
        (f"ALTER_CONFIGS on topic {_TOPIC}", changelog, AclOperation.ALTER_CONFIGS),
        (f"WRITE on transactional id {transactions[1]}", transactions, AclOperation.WRITE),
        (f"WRITE on topic {_TOPIC}", changelog, AclOperation.WRITE),
    )
    impatient = applying(clerk, tmp_path, replace(QUICK, idle_s=3.0))
    for missing, (kind, name), operation in steps:
        with pytest.raises(Refused) as refused:
            applied(plan, survey, impatient)
        assert refused.value.cause == f"the principal lacks the ACL {missing}.", refused.value
        assert own_settings(master, _TOPIC) == before
        _grant(master, kind, name, operation)
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


def test_a_cleaner_that_is_switched_off_is_seen(clients: tuple[dict[str, str], ...]) -> None:
    master, _ = clients
    (broker,) = _survey(master).brokers
    assert (broker.cleaner, broker.evidence) == (CleanerState.OFF, "log.cleaner.enable=false")
