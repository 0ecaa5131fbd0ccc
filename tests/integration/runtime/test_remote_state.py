"""A job whose stores are in a real Redis, which is killed, hangs and is flushed; and a rescale."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.cli.main import main
from holdfast.local.broker import BrokerStatus
from holdfast.types.status import JobStatus
from tests.support.redis_server import RedisServer
from tests.support.totals_job import TotalsJob, partitions_of, records_of

pytestmark = pytest.mark.timeout(900)

ROUND = 3_000
PASSWORD = "canary-of-the-store"
_SAID = "retrying after StoreUnavailable: The remote store at"


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    folder = tmp_path / "redis"
    folder.mkdir()
    rights = ("~holdfast:*", "+@all", "-@dangerous")
    with RedisServer(folder, "--user", "clerk", "on", f">{PASSWORD}", *rights) as server:
        yield server


@pytest.fixture
def job(
    kafka: BrokerStatus,
    kafka_topic_name: Callable[[str], str],
    tmp_path: Path,
    redis: RedisServer,
) -> Iterator[TotalsJob]:
    client = {"bootstrap.servers": kafka.bootstrap_servers}
    names = kafka_topic_name("app")[-40:], kafka_topic_name("in")[-40:]
    made = TotalsJob(tmp_path, client, *names, customers=2_000)
    (tmp_path / "password").write_text(f"{PASSWORD}\n")
    made.properties |= {
        "state.backend": "remote",
        "state.remote.uri": redis.uri,
        "state.remote.user": "clerk",
        "state.remote.password.file": str(tmp_path / "password"),
        "state.remote.timeout.ms": "2000",
        "state.cleanup.delay.ms": "1000",
        "max.offsets.per.trigger": "10000",
    }
    yield made
    made.stop()


class Story:
    """A job and the number of records it was given."""

    def __init__(self, job: TotalsJob) -> None:
        self.job = job
        self.sent = 0

    def round(self, what: str, meanwhile: Callable[[], object] = lambda: None) -> JobStatus:
        self.job.produce(ROUND, seed=self.sent)
        self.sent += ROUND
        meanwhile()
        return self.job.until(lambda s: records_of(s) == self.sent, what)

    def waits(self) -> None:
        """Until the job says that the store does not answer, once more."""
        said = self.job.log_text().count(_SAID)
        self.job.until(lambda _: self.job.log_text().count(_SAID) > said, "the job says so")

    def rescale(self, redis: RedisServer, partitions: int) -> None:
        """Until the stores of the former generation are gone."""
        servers = self.job.client["bootstrap.servers"]
        asked = (
            "rescale",
            "ctas_totals",
            "--state-partitions",
            str(partitions),
            "--timeout",
            "120",
        )
        more = ("--application-id", self.job.application_id)
        assert main([*asked, *more, "--set", f"bootstrap.servers={servers}"]) == 0
        wanted = {
            f"holdfast:{{{self.job.application_id}/ctas_totals-g1/{p}}}:{kind}".encode()
            for p in range(partitions)
            for kind in ("rows", "keys")
        }
        self.job.until(lambda _: set(_keys(redis)) == wanted, "only the stores in use are there")


def _keys(redis: RedisServer) -> list[bytes]:
    found = redis.ask("KEYS", "holdfast:*")
    assert isinstance(found, list)
    return found


def test_tables_are_exact_whatever_happens_to_the_store(
    job: TotalsJob, redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    story = Story(job)
    job.start()
    before = story.round("the first records")
    assert not list(job.home.glob("state/*/stores/*")), "no store is on a volume"
    assert all(p.bytes > 0 for p in partitions_of(before))

    def down() -> None:
        redis.kill()
        story.waits()
        redis.start()

    def hanging() -> None:
        redis.pause()
        story.waits()
        redis.resume()

    story.round("the way on after the server was down", down)
    story.round("the way on after it hung", hanging)
    after = story.round("the way on after a flush", lambda: redis.ask("FLUSHALL"))
    assert sum(p.restore_records for p in partitions_of(after)) > 4 * 100, "from the changelogs"

    story.round("the way on without an executor", lambda: job.kill_executor(after.executors[0]))
    story.rescale(redis, 6)
    story.round("records in the next generation")
    caplog.clear()
    assert main(["verify", *job.command()[4:]]) == 0
    assert "are not compared" not in caplog.text, "it reads the stores in the database"
    assert job.stop() == 0
    job.check_exact()
    assert PASSWORD not in job.log_text()
    files = [p for p in job.home.rglob("*.json") if p.is_file()]
    assert files
    assert all(PASSWORD not in p.read_text() for p in files)
