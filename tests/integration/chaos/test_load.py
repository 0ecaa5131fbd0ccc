"""Workload and sampler on a real broker, which is silent for a while."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from holdfast.chaos.history.events import HistoryWriter, read_history
from holdfast.chaos.history.sampler import Sampler
from holdfast.chaos.load.records import LoadShape
from holdfast.chaos.load.workload import HEADER, Load, Workload, input_sources, sent_before
from holdfast.judge.read.observe import Observer
from holdfast.local.broker import BrokerStatus
from holdfast.sql import compile_text
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.idempotent_producer import Producer
from holdfast.types.ids import changelog_topic, consumer_group
from holdfast.types.statements.topology import Topology

WAIT_S = 60.0


def _topology(first: str, second: str) -> Topology:
    return compile_text(
        f"CREATE STREAM a (k STRING, v INT) WITH (KAFKA_TOPIC='{first}', VALUE_FORMAT='JSON');"
        f"CREATE STREAM b (k STRING) WITH (KAFKA_TOPIC='{second}', VALUE_FORMAT='KAFKA');"
        f"CREATE TABLE t WITH (KAFKA_TOPIC='{first}-t') AS"
        " SELECT k, COUNT(*) AS n FROM a GROUP BY k;"
        f"CREATE STREAM u WITH (KAFKA_TOPIC='{first}-u') AS SELECT * FROM b;"
        f"CREATE STREAM w WITH (KAFKA_TOPIC='{first}-w') AS SELECT * FROM u;"
    )


def _until(holds: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def test_every_number_is_there_once_though_the_broker_was_silent(
    kafka: BrokerStatus, kafka_topic_name: Callable[[str], str], tmp_path: Path
) -> None:
    client = {"bootstrap.servers": kafka.bootstrap_servers}
    topics = [kafka_topic_name(name)[-60:] for name in ("first", "second")]
    for topic in topics:
        Admin(client).ensure_topic(topic, 2)
    sources = input_sources(_topology(*topics))
    assert [s.topic for s in sources] == topics, "what the job writes itself is none of its input"
    load = Load("run", 3, 400, LoadShape(keys=9))
    sent = 0
    for _ in range(2):  # the second one goes on where the first ended
        with HistoryWriter(tmp_path, "workload") as history:
            before = sent_before(read_history(tmp_path))
            workload = Workload(load, sources, client, history, before)
            sent += _through_a_silence(kafka, workload, tmp_path)
    found = Counter(v for t in topics for v in Observer(client, "x").header_values(t, HEADER))
    assert found == Counter(f"run/{n}".encode() for n in range(sent))
    totals = [e.data for e in read_history(tmp_path) if e.what == "produced"]
    assert totals[-1] == {
        "sent": sent, "acked": sent, "failed": 0, "first": 0, "last": sent - 1
    }  # fmt: skip


def _through_a_silence(kafka: BrokerStatus, workload: Workload, folder: Path) -> int:
    """Records that the workload sent; the broker was stopped for some of them."""
    done, counts, before = threading.Event(), list[int](), _produced(folder)
    thread = threading.Thread(target=lambda: counts.append(workload.run(done.is_set, WAIT_S)))
    thread.start()
    _until(lambda: _produced(folder) > before, "nothing was sent")
    begun = _produced(folder)
    os.kill(kafka.pid, signal.SIGSTOP)
    try:
        _until(lambda: _produced(folder) >= begun + 400, "sending stopped")
    finally:
        os.kill(kafka.pid, signal.SIGCONT)
        done.set()
        thread.join(WAIT_S)
    return counts[0]


def _produced(folder: Path) -> int:
    return max((e.data["sent"] for e in read_history(folder) if e.what == "produce"), default=0)


def test_samples_show_commits_lag_and_the_drivers_word(
    kafka: BrokerStatus, kafka_topic_name: Callable[[str], str], tmp_path: Path
) -> None:
    client, topic = {"bootstrap.servers": kafka.bootstrap_servers}, kafka_topic_name("in")[-60:]
    admin, producer = Admin(client), Producer(client)
    topology = Topology(_topology(topic, topic).queries[:1])
    query = topology.queries[0]
    changelog = changelog_topic("app", query.id)
    for name in (topic, changelog):
        admin.ensure_topic(name, 1)

    def write(name: str, records: int) -> None:
        for _ in range(records):
            producer.send(name, b"k", b"v")
        producer.flush()

    told = {"state": "running", "ready": True}
    with (
        HistoryWriter(tmp_path, "observer") as history,
        Sampler(topology, "app", client, history, lambda: told) as sampler,
    ):
        write(topic, 5)
        _until(lambda: sampler.lag == 5, "the lag of a job that has committed nothing")
        before = time.time()
        assert not sampler.advanced(before)
        write(changelog, 3)
        _until(lambda: sampler.advanced(before), "a commit")
        admin.commit_group(consumer_group("app", query.id), topic, {0: 4})
        _until(lambda: sampler.lag == 1, "the group's offsets")
        assert sampler.samples()[-1][1] == 3
    last = [e.data for e in read_history(tmp_path)][-1]
    assert last == {
        "input_end": 5, "committed": {"T": 4}, "lag": 1, "stable": {changelog: 3},
        "driver": {"state": "running", "ready": True, "restoring": False},
    }  # fmt: skip
