"""An apply that is killed, loses its broker or its rights: temporary settings are restored."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.compaction.apply.applied import Applied, Outcome
from holdfast.compaction.apply.apply import hands_of
from holdfast.compaction.apply.ledger import Entry, Ledger
from holdfast.compaction.apply.put_back import repair
from holdfast.compaction.plan.plan import Plan
from holdfast.compaction.runs import APPLIED, PLAN, SURVEY, run_folder, write_file
from holdfast.compaction.survey.facts import Survey
from holdfast.errors import HoldfastError, KafkaUnavailable
from holdfast.local.broker import BrokerStatus, LocalKafka
from holdfast.transport.cluster.topic_settings import TopicSettings
from tests.integration.compaction.applying import (
    QUICK,
    applied,
    applying,
    own_settings,
    planned,
    surveyed,
)
from tests.integration.compaction.changelogs import MadeChangelog, make_changelog

WAIT_S = 180.0  # a slow machine is slow, not wrong
pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def client(kafka: BrokerStatus) -> dict[str, str]:
    return {"bootstrap.servers": kafka.bootstrap_servers}


def _made(client: dict[str, str], application_id: str) -> MadeChangelog:
    made = make_changelog(client, application_id, keys=500, updates=30_000)
    made.close()
    return made


def _run(home: Path, survey: Survey, plan: Plan) -> Path:
    folder = run_folder(home, "r")
    write_file(folder / SURVEY, survey.to_json())
    write_file(folder / PLAN, plan.to_json())
    return folder


def _command(client: dict[str, str], home: Path, *words: str) -> list[str]:
    servers = f"bootstrap.servers={client['bootstrap.servers']}"
    start = [sys.executable, "-m", "holdfast.cli.main", "compaction", *words]
    return [*start, "--home", str(home), "--set", servers]


def _await_open(client: dict[str, str], made: MadeChangelog) -> Entry:
    """Waits until temporary settings are in force; their entry."""
    deadline = time.monotonic() + WAIT_S
    ledger = Ledger(client, made.application_id)
    while time.monotonic() < deadline:
        for entry in ledger.open_entries():
            own = own_settings(client, made.topic)
            if all(own.get(name) == value for name, value in entry.temporary.items()):
                return entry
        time.sleep(0.1)
    raise AssertionError(f"no temporary setting was in force within {WAIT_S} s")


def test_what_a_killed_apply_leaves_is_put_back_and_the_plan_can_be_applied_again(
    client: dict[str, str], kafka_topic_name: Callable[[str], str], tmp_path: Path
) -> None:
    made = _made(client, kafka_topic_name("app")[-60:])
    before = own_settings(client, made.topic)
    survey = surveyed(client, [made])
    plan = planned(survey)
    folder = _run(tmp_path, survey, plan)
    asked = _command(client, tmp_path, "apply", "--run", "r", "--hash", plan.hash)
    process = subprocess.Popen(asked, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    entry = _await_open(client, made)
    process.kill()
    process.communicate()
    assert own_settings(client, made.topic) != before
    assert set(entry.put_back) == set(entry.temporary) >= {"min.cleanable.dirty.ratio"}

    told = subprocess.run(
        _command(client, tmp_path, "repair", made.application_id, "--json"),
        capture_output=True, text=True, check=True, timeout=WAIT_S,
    )  # fmt: skip
    (said,) = json.loads(told.stdout)["repaired"]
    assert said.startswith(f"{made.topic}: ")
    stays = {c.name: c.after for c in plan.topics[0].changes if c.after is not None}
    assert own_settings(client, made.topic) == before | stays
    assert Ledger(client, made.application_id).open_entries() == []

    done = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=WAIT_S)
    assert done.returncode == 0, done.stderr
    record = Applied.read(folder / APPLIED)
    assert record is not None
    assert [t.outcome for t in record.topics] == [Outcome.CLEANED]
    assert own_settings(client, made.topic) == before | stays


def test_sigterm_puts_back_before_it_ends(
    client: dict[str, str], kafka_topic_name: Callable[[str], str], tmp_path: Path
) -> None:
    made = _made(client, kafka_topic_name("app")[-60:])
    before = own_settings(client, made.topic)
    survey = surveyed(client, [made])
    plan = planned(survey)
    folder = _run(tmp_path, survey, plan)
    asked = _command(client, tmp_path, "apply", "--run", "r", "--yes")
    process = subprocess.Popen(asked, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    _await_open(client, made)
    os.kill(process.pid, signal.SIGTERM)
    output, _ = process.communicate(timeout=WAIT_S)
    assert process.returncode == 130, output
    stays = {c.name: c.after for c in plan.topics[0].changes if c.after is not None}
    assert own_settings(client, made.topic) == before | stays
    assert Ledger(client, made.application_id).open_entries() == []
    record = Applied.read(folder / APPLIED)
    assert record is not None
    assert record.cut_off == "interrupted"


def test_a_setting_that_a_person_changed_meanwhile_stays_that_persons(
    client: dict[str, str], kafka_topic_name: Callable[[str], str], tmp_path: Path
) -> None:
    made = _made(client, kafka_topic_name("app")[-60:])
    ledger = Ledger(client, made.application_id)
    temporary: dict[str, str | None] = {"segment.ms": "5000", "min.cleanable.dirty.ratio": "0.01"}
    put_back: dict[str, str | None] = {"segment.ms": "7000000", "min.cleanable.dirty.ratio": None}
    ledger.write(Entry(made.topic, made.topic_id, temporary, put_back, "h"))
    by_hand = {"segment.ms": "5000", "min.cleanable.dirty.ratio": "0.3"}
    TopicSettings(client).alter(made.topic, by_hand)
    (told,) = repair(hands_of(applying(client, tmp_path)), ledger)
    assert told == f"{made.topic}: segment.ms=7000000"
    own = own_settings(client, made.topic)
    assert (own["segment.ms"], own["min.cleanable.dirty.ratio"]) == ("7000000", "0.3")
    assert repair(hands_of(applying(client, tmp_path)), ledger) == []


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[LocalKafka]:
    broker = LocalKafka(tmp_path / "kafka")
    yield broker
    broker.wipe()


def test_a_broker_that_goes_away_leaves_a_ledger_that_repairs(
    own_broker: LocalKafka, tmp_path: Path
) -> None:
    started = own_broker.start(port=0)
    client = {"bootstrap.servers": started.bootstrap_servers}
    made = _made(client, "app")
    before = own_settings(client, made.topic)
    survey = surveyed(client, [made])
    plan = planned(survey)
    ended: list[Applied | HoldfastError] = []

    def work() -> None:
        impatient = replace(QUICK, broker_s=3.0)
        try:
            ended.append(applied(plan, survey, applying(client, tmp_path / "run", impatient)))
        except HoldfastError as error:
            ended.append(error)

    worker = threading.Thread(target=work)
    worker.start()
    _await_open(client, made)
    own_broker.stop()
    worker.join(timeout=240)
    (error,) = ended
    assert isinstance(error, KafkaUnavailable)
    assert "min.cleanable.dirty.ratio" in error.fact
    assert "holdfast compaction repair" in error.action

    own_broker.start(port=started.port)
    done = applied(plan, survey, applying(client, tmp_path / "run"))
    assert done.repaired[0].startswith(f"{made.topic}: ")
    assert [t.outcome for t in done.topics] == [Outcome.CLEANED]
    stays = {c.name: c.after for c in plan.topics[0].changes if c.after is not None}
    assert own_settings(client, made.topic) == before | stays
