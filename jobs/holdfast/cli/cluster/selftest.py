"""`holdfast selftest`: tests that Holdfast works with this Kafka, its credentials and ACLs."""

from __future__ import annotations

import contextlib
import secrets
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click
import orjson

from holdfast.cli.progress import reporter
from holdfast.cli.servers.ask_server import ask_tables, server_options
from holdfast.cli.statements.options import job_options, json_errors, json_option, load_settings
from holdfast.config.commands import HOLDFAST, module_command
from holdfast.deploy.local.supervisor import last_error
from holdfast.errors import HoldfastError
from holdfast.local.processes import end_session
from holdfast.types.ids import (
    changelog_topic,
    dead_letter_topic,
    orders_topic,
    progress_topic,
)

if TYPE_CHECKING:
    from holdfast.config.settings import Settings
    from holdfast.transport.cluster.admin import Admin
    from holdfast.types.statements.topology import Query

__all__ = ["command"]

_SQL = """
CREATE STREAM selftest_events (name STRING KEY, amount BIGINT)
  WITH (KAFKA_TOPIC='{topic}-events', VALUE_FORMAT='JSON');
CREATE TABLE selftest_totals WITH (KAFKA_TOPIC='{topic}-totals') AS
  SELECT name, COUNT(*) AS n, SUM(amount) AS total FROM selftest_events
  GROUP BY name EMIT CHANGES;
"""
_PARTITIONS = 2
_BROKER_S = 30.0
_HTTP_S = 10.0
_MEMORY_MB = 512  # the smallest that Spark takes is a bit more than 450

_END_S = 5.0

Tell = Callable[[str], None]
Table = Mapping[str, tuple[int | None, int | None]]
"""Name -> (count, total)."""


@dataclass(frozen=True)
class _Given:
    """The user's options, and the settings made from them."""

    settings: Settings
    config: Path | None
    overrides: tuple[str, ...]

    def arguments(self) -> list[str]:
        """The same options as arguments of another Holdfast command."""
        file = [f"--config={self.config}"] if self.config else []
        servers = f"bootstrap.servers={self.settings.bootstrap_servers}"
        return [*file, *(f"--set={pair}" for pair in (*self.overrides, servers))]


@dataclass
class _Outcome:
    """The results, and each step's duration in seconds."""

    name: str
    brokers: int = 0
    records: int = 0
    rows: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    topics_left: list[str] = field(default_factory=list)
    served: dict[str, int] = field(default_factory=dict)

    @contextlib.contextmanager
    def step(self, name: str, tell: Tell) -> Iterator[None]:
        tell(name)
        began = time.monotonic()
        yield
        self.seconds[name] = round(time.monotonic() - began, 1)


@click.command("selftest")
@job_options
@click.option(
    "--records",
    type=click.IntRange(min=1, max=1_000_000),
    default=500,
    show_default=True,
    help="Number of records to write and count.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=240.0,
    show_default=True,
    metavar="SECONDS",
    help="Time limit for making the table.",
)
@click.option("--driver", metavar="URL", help="Also check that this driver of a job is ready.")
@server_options("Also read a row of each table of this query server.")
@json_option
def command(
    config: Path | None,
    overrides: tuple[str, ...],
    home: str | None,
    records: int,
    timeout: float,
    driver: str | None,
    server: str | None,
    server_token: str,
    server_ca: Path | None,
    as_json: bool,
) -> None:
    """Make a small table through Kafka, and compare it with the records written.

    Writes records to its own topic, counts and sums them in its own Spark with one executor, reads
    the table back, and deletes its topics. Takes a job's properties (--config, --set) for the
    connection; its topics, group and transactional ids begin with APPLICATION.ID-selftest-, so it
    needs the same rights as the job. Exits with 0 if the table is exact.
    """
    # Ending the pod must not leave topics behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with json_errors(as_json):
        given = _Given(load_settings(config, overrides, home), config, overrides)
        with reporter() as tell:
            outcome = _selftest(given, records, timeout, tell)
            if driver is not None:
                with outcome.step(f"asking the driver at {driver}", tell):
                    _ask_ready(driver)
            if server is not None:
                with outcome.step(f"reading tables from {server}", tell):
                    outcome.served = ask_tables(server, server_token, server_ca)
    click.echo(
        orjson.dumps({"ok": True, **asdict(outcome)}).decode() if as_json else _text(outcome)
    )


def _text(outcome: _Outcome) -> str:
    lines = [f"{seconds:7.1f} s  {name}" for name, seconds in outcome.seconds.items()]
    brokers = "1 broker" if outcome.brokers == 1 else f"{outcome.brokers} brokers"
    lines.append(
        f"Holdfast works with this Kafka ({brokers}): {outcome.records:,} records gave "
        f"{outcome.rows} rows, every one exact."
    )
    if outcome.topics_left:
        left = ", ".join(outcome.topics_left)
        lines.append(f"These topics could not be deleted, delete them by hand: {left}")
    return "\n".join(lines)


def _selftest(given: _Given, records: int, timeout_s: float, tell: Tell) -> _Outcome:
    """The whole test except for the driver.

    Raises:
        HoldfastError: names what does not work.
    """
    from holdfast.sql import compile_text
    from holdfast.transport.cluster.admin import Admin

    settings = given.settings
    outcome = _Outcome(f"{settings.application_id}-selftest-{secrets.token_hex(4)}")
    query = compile_text(_SQL.format(topic=outcome.name)).queries[0]
    admin = Admin(settings.client())
    with outcome.step("reaching the brokers", tell):
        outcome.brokers = admin.wait_ready(_BROKER_S)
    try:
        with outcome.step(f"writing {records:,} records", tell):
            expected = _produce(admin, settings, query, records)
        outcome.records = records
        with outcome.step("making a table of them in Spark", tell):
            _run(outcome.name, given, timeout_s)
        with outcome.step("reading the table and comparing", tell):
            _compare(_read(query, settings, outcome.name), expected)
        outcome.rows = len(expected)
    finally:
        with outcome.step("deleting the topics", tell):
            outcome.topics_left = _delete_topics(admin, query, outcome.name)
    return outcome


def _produce(admin: Admin, settings: Settings, query: Query, records: int) -> Table:
    """Write the records; returns the expected table."""
    from holdfast.transport.idempotent_producer import Producer

    topic = query.source.topic
    admin.ensure_topic(topic, _PARTITIONS, settings.state.changelog_replicas, {})
    counts: Counter[str] = Counter()
    totals: Counter[str] = Counter()
    producer = Producer(settings.client())
    try:
        for number in range(records):
            name = f"name-{number % 37}"
            counts[name] += 1
            totals[name] += number
            producer.send(topic, name.encode(), orjson.dumps({"amount": number}))
        producer.flush()
    finally:
        producer.close()
    return {name: (count, totals[name]) for name, count in counts.items()}


def _run(name: str, given: _Given, timeout_s: float) -> None:
    """Run the job until it has read everything, as a process that can be ended at any time.

    Raises:
        HoldfastError: it failed, or the time is over.
    """
    status: int | None = None
    # Spark's processes may still write log lines while the folder is removed.
    with tempfile.TemporaryDirectory(prefix=f"{name}-", ignore_cleanup_errors=True) as home:
        log = Path(home, "job.log")
        command = module_command(HOLDFAST, "run", "--until-caught-up")
        arguments = ["--sql", _SQL.format(topic=name), *given.arguments(), *_own(name, home)]
        with log.open("wb") as out:
            job = subprocess.Popen(
                [*command, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                status = job.wait(timeout_s)
        finally:
            end_session(job.pid, _END_S if status == 0 else 0.0)
            job.wait()
        if status != 0:
            click.echo(log.read_text(encoding="utf-8", errors="replace"), err=True)
            raise _failed(status, timeout_s, last_error(log, 0))


def _own(name: str, home: str) -> list[str]:
    """Settings of the test's job: the user's connection, but its own small Spark and folders."""
    own = {
        "application.id": name,
        "home": home,
        "state.dir": str(Path(home, "state")),
        "state.partitions": _PARTITIONS,
        "spark.master": f"local-cluster[1,1,{_MEMORY_MB}]",
        "executors": 1,
        "executor.memory.mb": _MEMORY_MB,
        "driver.memory.mb": _MEMORY_MB,
        "metrics.port": 0,
        "auto.offset.reset": "earliest",
        "dead.letter.topic": dead_letter_topic(name),
    }
    return [word for key, value in own.items() for word in ("--set", f"{key}={value}")]


def _failed(status: int | None, timeout_s: float, last: str) -> HoldfastError:
    if status is None:
        return HoldfastError(
            f"The table was not finished after {timeout_s:.0f} s.",
            cause="the machine is slow, or a broker does not answer",
            action="look at the job's log above; give it longer with --timeout",
        )
    return HoldfastError(
        f"The job that makes the table ended with status {status}: {last}",
        action="its log is above",
    )


def _read(query: Query, settings: Settings, name: str) -> Table:
    """The table in its sink topic: the last row of each key."""
    from holdfast.judge.read.decode import SinkDecoder
    from holdfast.judge.read.observe import Observer

    sink = query.sink
    formats = (sink.key_format, sink.value_format)
    decoder = SinkDecoder(sink.key_columns, sink.value_columns, formats, windowed=False)
    observer = Observer(settings.client(), name)
    table = {}
    for record in observer.records(sink.topic, observer.bounds(sink.topic)):
        row = decoder.row(record.value) or {}
        table[str(decoder.key(record.key)[0])] = (row.get("N"), row.get("TOTAL"))
    return table


def _compare(found: Table, expected: Table) -> None:
    wrong = sorted(key for key in {*found, *expected} if found.get(key) != expected.get(key))
    if wrong:
        key = wrong[0]
        raise HoldfastError(
            f"{len(wrong)} of {len(expected)} rows are wrong; {key} is {found.get(key)} (count, "
            f"total) and should be {expected.get(key)}.",
            cause="a fault of Holdfast's, or another program wrote to the test's topics",
            action="please report it, with the lines above",
        )


def _delete_topics(admin: Admin, query: Query, name: str) -> list[str]:
    """Delete the test's topics; returns those that could not be deleted."""
    left = []
    made = (query.source.topic, query.sink.topic, changelog_topic(name, query.id))
    own = (progress_topic(name, query.id), dead_letter_topic(name), orders_topic(name))
    for topic in (*made, *own):
        try:
            if admin.describe(topic) is not None:
                admin.delete_topic(topic)
        except HoldfastError:
            left.append(topic)
    return left


def _ask_ready(driver: str) -> None:
    url = f"{driver.rstrip('/')}/ready"
    try:
        with urllib.request.urlopen(url, timeout=_HTTP_S):  # noqa: S310 - the user's own address
            return
    except urllib.error.HTTPError as answer:
        with answer:
            reason = answer.read().decode(errors="replace").strip()
        action = "wait until its stores are restored; its log says how far it is"
    except OSError as error:
        reason, action = str(error), "look at the driver's pod and its Service"
    raise HoldfastError(f"The driver is not ready ({url}): {reason}.", action=action)
