"""A job whose stores are in a real database that is killed, hangs and is emptied; and a rescale."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.cli.main import main
from holdfast.config.settings import RemoteSettings
from holdfast.local.broker import BrokerStatus
from holdfast.state.remote.opening import RemoteStores
from holdfast.types.status import JobStatus
from tests.support.jobs.totals_job import TotalsJob, partitions_of, records_of
from tests.support.servers.dynamodb_server import DynamoServer, in_environment
from tests.support.servers.redis_server import RedisServer

pytestmark = pytest.mark.timeout(900)

ROUND = 3_000
PASSWORD = "canary-of-the-store"
_SAID = "retrying after StoreUnavailable: The remote store "


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    folder = tmp_path / "redis"
    folder.mkdir()
    rights = ("~holdfast:*", "+@all", "-@dangerous")
    with RedisServer(folder, "--user", "clerk", "on", f">{PASSWORD}", *rights) as server:
        yield server


@pytest.fixture
def make(
    kafka: BrokerStatus, kafka_topic_name: Callable[[str], str], tmp_path: Path
) -> Iterator[Callable[[dict[str, str]], TotalsJob]]:
    """Makes the job, given its properties about the database."""
    client = {"bootstrap.servers": kafka.bootstrap_servers}
    names = kafka_topic_name("app")[-40:], kafka_topic_name("in")[-40:]
    made = TotalsJob(tmp_path, client, *names, customers=2_000)

    def job(properties: dict[str, str]) -> TotalsJob:
        made.properties |= {
            "state.backend": "remote",
            "state.remote.timeout.ms": "2000",
            "state.cleanup.delay.ms": "1000",
            "max.offsets.per.trigger": "10000",
            **properties,
        }
        return made

    yield job
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

    def down(self, database: RedisServer | DynamoServer) -> None:
        database.kill()
        self.waits()
        database.start()

    def hanging(self, database: RedisServer | DynamoServer) -> None:
        database.pause()
        self.waits()
        database.resume()

    def without_an_executor(self, status: JobStatus) -> JobStatus:
        victim = status.executors[0]
        return self.round("the way on without it", lambda: self.job.kill_executor(victim))

    def rescale(self, settings: RemoteSettings, partitions: int) -> None:
        """Until the stores of the former generation are gone."""
        where = ("--application-id", self.job.application_id, "--timeout", "120", "--set")
        servers = f"bootstrap.servers={self.job.client['bootstrap.servers']}"
        asked = ("rescale", "ctas_totals", "--state-partitions", str(partitions))
        assert main([*asked, *where, servers]) == 0
        wanted = [(self.job.application_id, "ctas_totals-g1", p) for p in range(partitions)]
        stores = RemoteStores(settings, self.job.application_id)
        self.job.until(lambda _: stores.stores() == wanted, "only the stores in use are there")

    def round_in_warm_stores(self) -> None:
        """After a rescale: an owner has found all rows, and replayed the first commit marker."""
        after = partitions_of(self.round("records in the next generation"))
        assert sum(p.restore_records for p in after) <= len(after), "the stores were not warm"

    def ends_exact(self, secret: str, caplog: pytest.LogCaptureFixture) -> None:
        caplog.clear()
        assert main(["verify", *self.job.command()[4:]]) == 0
        assert "are not compared" not in caplog.text, "it reads the stores in the database"
        assert self.job.stop() == 0
        self.job.check_exact()
        files = [p for p in self.job.home.rglob("*.json") if p.is_file()]
        assert files
        assert all(
            secret not in text for text in (self.job.log_text(), *map(Path.read_text, files))
        )


def test_tables_are_exact_whatever_happens_to_redis(
    make: Callable[[dict[str, str]], TotalsJob],
    redis: RedisServer,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (tmp_path / "password").write_text(f"{PASSWORD}\n")
    job = make(
        {
            "state.remote.uri": redis.uri,
            "state.remote.user": "clerk",
            "state.remote.password.file": str(tmp_path / "password"),
        }
    )
    story = Story(job)
    job.start()
    before = story.round("the first records")
    assert not list(job.home.glob("state/*/stores/*")), "no store is on a volume"
    assert all(p.bytes > 0 for p in partitions_of(before))
    story.round("the way on after the server was down", lambda: story.down(redis))
    story.round("the way on after it hung", lambda: story.hanging(redis))
    after = story.round("the way on after a flush", lambda: redis.ask("FLUSHALL"))
    assert sum(p.restore_records for p in partitions_of(after)) > 4 * 100, "from the changelogs"
    story.without_an_executor(after)
    story.rescale(redis.settings(), 6)
    story.round_in_warm_stores()
    story.ends_exact(PASSWORD, caplog)


def test_tables_are_exact_whatever_happens_to_dynamodb(
    make: Callable[[dict[str, str]], TotalsJob],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (tmp_path / "dynamodb").mkdir()
    with DynamoServer(tmp_path / "dynamodb") as dynamo:
        in_environment(dynamo, monkeypatch)
        job = make({"state.remote.uri": dynamo.settings().uri})
        story = Story(job)
        job.start()
        story.round("the first records")
        assert not list(job.home.glob("state/*/stores/*")), "no store is on a volume"
        story.round("the way on after it hung", lambda: story.hanging(dynamo))
        after = story.round("the way on after all was lost", lambda: story.down(dynamo))
        assert sum(p.restore_records for p in partitions_of(after)) > 4 * 100, "from changelogs"
        story.without_an_executor(after)
        story.rescale(dynamo.settings(), 6)
        story.round_in_warm_stores()
        story.ends_exact(dynamo.environment()["AWS_SECRET_ACCESS_KEY"], caplog)
