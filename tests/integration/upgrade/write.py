"""Writes what a job of this version leaves behind, for later versions to go on from.

    PYTHONPATH=.:jobs python -m tests.integration.upgrade.write [RELEASE]

Starts a broker and runs `job.sql` twice, with a part of the input (`given`) before each run.  The
broker's data and the stores are kept as they are after the first run, the records of all topics
as they are after the second: these show what the version itself makes of the rest of the input.
RELEASE names the folder; without it the version's number does.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its stubs re-export nothing
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from holdfast import __version__
from holdfast.local.broker import LocalKafka
from holdfast.transport.cluster.admin import Admin
from holdfast.transport.producer import Producer
from holdfast.transport.reader import PartitionReader
from tests.integration.upgrade.given import PARTITIONS, Given, part
from tests.integration.upgrade.written import (
    APPLICATION,
    FOLDER,
    KEPT,
    STATE_PARTITIONS,
    Record,
    Written,
    pack_folder,
)
from tests.support.jobs.running_job import RunningJob

__all__ = ["PROPERTIES", "produce", "read_all", "write"]

HERE = Path(__file__).parent
PROPERTIES = {
    "state.partitions": str(STATE_PARTITIONS),
    "delete.retention.ms": "315360000000",  # ten years: a store that old is read
    "executors": "1",
}
# Internal topics keep their records: they are the input of the queries behind them.
_KEEP = """
from holdfast.runtime.purge import Purge

Purge.delete = lambda self, runs: None
"""


def produce(client: dict[str, str], given: Iterable[Given]) -> None:
    """Produces records to the topic partitions they name."""
    producer = Producer(client)
    for each in given:
        producer.send(
            each.topic, each.key, each.value, partition=each.partition,
            timestamp_ms=each.timestamp_ms,
        )  # fmt: skip
    producer.flush()
    producer.close()


def read_all(client: dict[str, str]) -> dict[str, list[list[Record]]]:
    """All committed records of all topics that are not Kafka's own."""
    admin, found = Admin(client), {}
    for topic in sorted(AdminClient({**client}).list_topics(timeout=30).topics):
        if not topic.startswith("__"):
            found[topic] = [_read(client, topic, p, *bounds)
                            for p, bounds in sorted(admin.bounds(topic).items())]  # fmt: skip
    return found


def _read(client: dict[str, str], topic: str, partition: int, start: int, end: int) -> list[Record]:
    reader = PartitionReader(client, topic, partition, headers=True)
    try:
        chunks = list(reader.read(start, end)) if start < end else []
    finally:
        reader.close()
    return [
        Record(offset, time_ms, key, value, headers)
        for chunk in chunks
        for offset, time_ms, key, value, headers in zip(
            chunk.offsets, chunk.timestamps, chunk.keys, chunk.values, chunk.headers, strict=True
        )
    ]


def write(to: Path) -> None:
    """Runs the job and writes the folder of a release."""
    home = Path(tempfile.mkdtemp(prefix="holdfast-written-"))
    broker = LocalKafka(home)
    try:
        for name in ("job.sql", "functions.py"):
            shutil.copy(HERE / name, to / name)
            shutil.copy(HERE / name, home / name)
        (home / "keep.py").write_text(_KEEP, encoding="utf-8")
        job = _job(home, broker)
        _keep_superseded(job.client)
        for topic, partitions in PARTITIONS.items():
            Admin(job.client).ensure_topic(topic, partitions, -1, {"retention.ms": "-1"})
        produce(job.client, part(0))
        _run(job)
        ends = {topic: _ends(job.client, topic) for topic in read_all(job.client)}
        broker.stop()
        pack_folder(broker.folder / "data", to / "broker.tar.xz")
        pack_folder(home / "state", to / "stores.tar.xz", _kept)
        job = _job(home, broker)
        produce(job.client, part(1))
        _run(job)
        records, admin = read_all(job.client), Admin(job.client)
        ids = {topic: info.topic_id for topic in records if (info := admin.describe(topic))}
        Written(records, ends, ids).save(to)
    finally:
        broker.wipe()
        shutil.rmtree(home, ignore_errors=True)


def _kept(name: str) -> bool:
    """Whether a file of a volume is kept; a store is at ./<volume>/stores/<application>/<query>."""
    parts = name.split("/")
    log = parts[-1] == "LOG" or parts[-1].startswith("LOG.old")  # names folders of this machine
    return len(parts) < 5 or (parts[4] in KEPT and not log)


def _keep_superseded(client: dict[str, str]) -> None:
    """Keeps the broker from compacting: every record that was written is compared later."""
    lag = ConfigEntry("log.cleaner.min.compaction.lag.ms", "315360000000")
    lag.incremental_operation = AlterConfigOpType.SET
    every = ConfigResource(ResourceType.BROKER, "", incremental_configs=[lag])
    (done,) = AdminClient({**client}).incremental_alter_configs([every]).values()
    done.result()


def _job(home: Path, broker: LocalKafka) -> RunningJob:
    client = {"bootstrap.servers": broker.start(port=0).bootstrap_servers}
    functions = f"{home / 'functions.py'},{home / 'keep.py'}"
    # Small batches, so that rows are merged and not only made.
    cut = {"max.offsets.per.trigger": "60", "functions": functions}
    return RunningJob(home, client, APPLICATION, properties=PROPERTIES | cut)


def _run(job: RunningJob) -> None:
    # Not `job.finish`: so many queries take longer than a test may.
    done = subprocess.run(job.command("--until-caught-up"), check=False)
    if done.returncode != 0:
        raise SystemExit(f"The job ended with {done.returncode}.")


def _ends(client: dict[str, str], topic: str) -> list[int]:
    return [end for _, (_, end) in sorted(Admin(client).bounds(topic).items())]


if __name__ == "__main__":
    release = FOLDER / (sys.argv[1] if len(sys.argv) > 1 else __version__)
    release.mkdir(parents=True, exist_ok=True)
    write(release)
    for path in sorted(release.iterdir()):
        sys.stdout.write(f"{path.name}: {path.stat().st_size} bytes\n")
