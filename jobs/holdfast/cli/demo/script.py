"""The demo, act by act: only commands that a user can type, and two kills."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.cli.demo.backing import Backing
from holdfast.cli.demo.compacting import nothing_planned, what_was_won
from holdfast.cli.demo.deployed import Deployed
from holdfast.cli.demo.files import APPLICATION_ID, DemoFiles, demo_sql, last_line
from holdfast.cli.demo.kills import (
    Kill,
    Tell,
    kill_driver,
    kill_executor,
    kills_table,
    recovered,
)
from holdfast.cli.demo.processes import Child, Children
from holdfast.cli.demo.recount import differences, recounted
from holdfast.cli.demo.results import EXPECTED, FLIGHTS_EXPECTED, compare, results_table
from holdfast.cli.demo.screen import Bar, Screen
from holdfast.cli.demo.serving import PULL, PUSH, Served
from holdfast.cli.demo.watch import Progress, Watch
from holdfast.cli.look.facts import read_values
from holdfast.cli.samples import SAMPLES
from holdfast.cli.statements.options import Job, load_job
from holdfast.config.commands import HOLDFAST, module_command
from holdfast.errors import HoldfastError, Refused
from holdfast.judge.read.observe import Observer
from holdfast.local.processes import is_running
from holdfast.transport.registry import registry_of
from holdfast.types.status import JobStatus, status_path

__all__ = ["Demo", "DemoOptions"]

_FLIGHTS = "flights"
_SMALL = ("movies", "sensors", "payments")
_AVRO = ("payments", "avro_payments")  # the same example, and the stream that has it in Avro
_EXECUTOR_AT, _DRIVER_AT = 0.35, 0.65
_EXECUTORS = 2
_LOOK_S = 0.25
# Each takes some ten seconds, so one is enough.
_LARGEST = "*flights_per_origin_hour-changelog"
_START_S, _REACH_S = 240.0, 480.0
# Even on a slow machine there are batches left for the kills to hit.
_BATCHES, _BATCH_MIN = 16, 1_000


@dataclass(frozen=True)
class DemoOptions:
    """The options of the demo.

    Attributes:
        home: the demo's folder, wiped first.
        rate: flights per second; low enough to last through both kills.
        limit: flights to stream, None for the whole year.
        airflow: an `airflow` executable whose DAGs deploy the job, None to do it by command.
        keep: Kafka, the job and a query server with its console stay when all acts are over.
    """

    home: Path
    rate: int
    limit: int | None = None
    airflow: str | None = None
    keep: bool = False

    @property
    def flights(self) -> int:
        count = SAMPLES[_FLIGHTS].count
        return count if self.limit is None else min(count, self.limit)


@dataclass
class _Outcome:
    kills: list[Kill] = field(default_factory=list)
    verified: bool = False
    known_values_agree: bool = False
    reads_held: bool = False

    @property
    def good(self) -> bool:
        landed = len(self.kills) == 2 and all(kill.counts for kill in self.kills)
        return landed and self.verified and self.known_values_agree and self.reads_held


class Demo:
    """Plays all acts; owns the processes that run meanwhile."""

    def __init__(self, options: DemoOptions, screen: Screen) -> None:
        self._options = options
        self._screen = screen
        self._files = DemoFiles(options.home)
        self._sql = demo_sql()
        self._children = Children()
        self._deployed = Deployed(options.home)
        self._outcome = _Outcome()
        self._backing = Backing(options.home)
        self._served = Served(self._sql, options.home)

    def play(self) -> bool:
        """Play all acts and clean up; True if everything was as expected.

        Raises:
            HoldfastError: an act failed.
        """
        try:
            self._prepare()
            job = self._start()
            self._stream(job)
            self._look(job)
            self._compact()
            self._judge()
            if self._options.keep:
                self._keep()
                return self._outcome.good
            self._screen.title("8. Everything is stopped")
            self._undeploy()
        except BaseException:
            self._clear()
            raise
        clean = self._clear()
        self._report()
        return clean and self._outcome.good

    def _keep(self) -> None:
        """Leave Kafka, the job and its query server; say where they are and how to end them."""
        self._children.stop()
        screen, home = self._screen, list(self._home())
        screen.title("8. Everything goes on")
        self._command("status", APPLICATION_ID)
        for url in self._deployed.servers():
            screen.say(f"the console: [bold]{url}/console/[/bold]")
            screen.command(["query", "--server", url, PULL])
        screen.show(kills_table(self._outcome.kills))
        screen.say("to end it:")
        screen.command(["undeploy", APPLICATION_ID, *home])
        screen.command(["kafka", "stop", *home])
        self._verdict()

    def _prepare(self) -> None:
        """Stop processes that a killed demo left, and wipe its folder."""
        self._deployed.remove()
        self._refuse_running()
        self._backing.stop()
        self._files.wipe()
        self._screen.title("1. A real Kafka, a schema registry, and the small examples")
        self._command("kafka", "start", "--port", "0")
        arguments = ["registry", "start", "--port", "0", *self._home()]
        self._screen.command(arguments, "in the background")
        registry = self._children.start(_holdfast(arguments), self._files.registry_log)
        for name in _SMALL:
            self._command("produce", name)
        if self._follow(registry, self._files.registry_log, "the registry starts") != 0:
            raise HoldfastError(
                f"The schema registry did not start: {last_line(self._files.registry_log)}",
                action=f"read {self._files.registry_log}.",
            )
        name, stream = _AVRO
        self._command("produce", name, "--source", stream, "--statements", str(self._sql))

    def _refuse_running(self) -> None:
        status = JobStatus.read(status_path(self._options.home, APPLICATION_ID))
        if status is not None and is_running(status):
            raise Refused(
                f"A job of an earlier demo still runs in {self._options.home} (pid {status.pid}).",
                action=f"stop it with: kill {status.pid}",
            )

    def _start(self) -> Job:
        self._screen.title("2. The job: six tables, two executors")
        job = load_job(self._sql, None, (), str(self._options.home))
        for query in job.topology.queries:
            self._screen.say(f"{query.sink.name} from {query.source.topic}")
        return job

    def _stream(self, job: Job) -> None:
        queries = [q for q in job.topology.queries if q.source.topic == _FLIGHTS]
        watch = Watch(self._files, self._observer(job), queries, self._options.flights)
        self._deploy()
        self._serve()
        producer = self._produce_flights()
        why_dead = self._deployed.why_dead
        with self._screen.bar(watch.total) as bar:
            tell = _telling(bar)
            self._until_share(watch, _EXECUTOR_AT, bar)
            self._screen.title("3. SIGKILL to an executor")
            self._kill(recovered(kill_executor(watch), watch, why_dead, tell))
            self._until_share(watch, _DRIVER_AT, bar)
            self._screen.title("4. SIGKILL to the driver, a volume is lost, it comes back")
            with self._deployed.held():
                kill = kill_driver(watch)
                self._lose_volume(kill)
            self._kill(recovered(kill, watch, why_dead, tell))
            watch.until(lambda now: self._all_done(now, watch, producer), why_dead, _REACH_S, tell)

    def _observer(self, job: Job) -> Observer:
        return Observer(job.settings.client(), job.settings.application_id)

    def _deploy(self) -> None:
        """Deploy with the command, or with Airflow's DAG, which runs the same command."""
        limit = max(_BATCH_MIN, self._options.flights // _BATCHES)
        if self._options.airflow is not None:
            self._by_dag(
                "deploy_state_table",
                name=APPLICATION_ID,
                sql_file=str(self._sql),
                executors=_EXECUTORS,
                properties={"max.offsets.per.trigger": limit},
            )
            return
        properties = ["--set", f"max.offsets.per.trigger={limit}"]
        size = ["--executors", str(_EXECUTORS), "--timeout", f"{_START_S:.0f}"]
        size += ["--servers", "1"] if self._options.keep else []
        self._command("deploy", APPLICATION_ID, str(self._sql), *properties, *size)

    def _serve(self) -> None:
        served = self._served
        self._screen.command(served.arguments, "in the background")
        served.await_ready(self._children.start(_holdfast(served.arguments), self._files.serve_log))
        self._screen.say(f"the console: [bold]{served.console}[/bold]")
        served.read()

    def _undeploy(self) -> None:
        if self._options.airflow is not None:
            self._by_dag("undeploy_state_table", name=APPLICATION_ID)
        else:
            self._command("undeploy", APPLICATION_ID)

    def _by_dag(self, dag: str, **params: object) -> None:
        """Run one of the DAGs with target `local`.

        Raises:
            HoldfastError: it failed.
        """
        assert self._options.airflow is not None
        home = str(self._options.home.absolute())
        conf = {"target": "local", "home": home, **params}
        command = [self._options.airflow, "dags", "test", dag, "--conf"]
        log = self._files.airflow_log
        self._screen.command_line([*command, json.dumps(conf)], f"log in {log}")
        said = log.stat().st_size if log.exists() else 0  # by the DAG before
        # A path of `sql_file` starts there.
        folder = {"HOLDFAST_SQL_FOLDER": self._sql.anchor or str(Path.cwd())}
        child = self._children.start([*command, json.dumps(conf)], log, folder)
        status = self._follow(child, log, "Airflow starts", said)
        if status != 0:
            raise HoldfastError(
                f"The DAG {dag} ended with status {status}.",
                action=f"read {log}.",
            )

    def _follow(self, child: Child, log: Path, title: str, since: int = 0) -> int:
        """Show the log's last line until the command ends; returns its exit status."""
        with self._screen.waiting(title) as tell:
            while child.running:
                tell(last_line(log, since))
                time.sleep(_LOOK_S)
        return child.wait()

    def _produce_flights(self) -> Child:
        arguments = ["produce", _FLIGHTS, "--rate", str(self._options.rate), *self._home()]
        if self._options.limit is not None:
            arguments += ["--limit", str(self._options.limit)]
        self._screen.command(arguments, "in the background")
        return self._children.start(_holdfast(arguments), self._files.producer_log)

    def _until_share(self, watch: Watch, share: float, bar: Bar) -> None:
        enough = share * watch.total
        why_dead = self._deployed.why_dead
        watch.until(lambda now: now.committed >= enough, why_dead, _REACH_S, _telling(bar))

    def _all_done(self, now: Progress, watch: Watch, producer: Child) -> bool:
        if producer.exit_status not in (None, 0):
            raise HoldfastError(
                f"Producing flights ended with status {producer.exit_status}.",
                action=f"read {self._files.producer_log}.",
            )
        return not producer.running and now.committed >= max(now.produced, watch.total)

    def _lose_volume(self, kill: Kill) -> None:
        """Delete an executor's stores, so that they have to be restored."""
        if kill.before is not None:
            self._deployed.end_orphans(kill.before.pid)
        volume = self._files.volume
        self._screen.command_line(["rm", "-r", str(volume)])
        shutil.rmtree(volume, ignore_errors=True)

    def _kill(self, kill: Kill) -> None:
        self._outcome.kills.append(kill)
        self._screen.say(f"killed: {kill.what}, with {kill.share:.0%} of the flights committed")
        self._screen.say(f"work went on after {kill.recovery_s:.1f} s; stores: {kill.restored}")

    def _look(self, job: Job) -> None:
        self._screen.title("5. The tables")
        self._show_reads()
        self._command("inspect", str(self._sql))
        self._command("inspect", "flights_per_carrier", str(self._sql), "--limit", "5")
        expected = EXPECTED + (FLIGHTS_EXPECTED if self._options.limit is None else ())
        wanted = recounted(self._options.flights)
        schemas = registry_of(job.settings.registry.client())
        tables = read_values(job.topology.queries, self._observer(job), wanted, schemas)
        compared = compare(expected, tables)
        self._screen.show(results_table(compared))
        wrong = differences(wanted, tables)
        for line in wrong:
            self._screen.say(f"[red]✗[/red] {line}")
        rows = sum(map(len, wanted.values()))
        self._screen.say(
            f"{rows:,} rows counted again from the example data: {len(wrong)} tables differ"
        )
        self._outcome.known_values_agree = not wrong and all(agrees for _, _, agrees in compared)

    def _show_reads(self) -> None:
        """Show the query server's answers during the kills."""
        reads = self._served.stop()
        self._outcome.reads_held = reads.good
        changes = ", ".join(f"{c['CARRIER']}: {c['FLIGHTS']}" for c in reads.changes)
        self._screen.statement(PUSH, changes)
        self._screen.statement(PULL, f"{reads.flights:,}")
        self._screen.say(
            f"{reads.asked:,} such look-ups while executor and driver were killed: "
            f"{reads.failed} failed, {reads.went_back} went back {reads.last_error}"
        )

    def _compact(self) -> None:
        """Compact with commands, or with Airflow's DAG, which runs the same; the job keeps
        running.
        """
        self._screen.title("6. What its changelogs cost, and what compaction wins")
        home = self._options.home
        if self._options.airflow is not None:
            self._by_dag(
                "plan_changelog_compaction",
                jobs=[APPLICATION_ID],
                policy={"topics": _LARGEST},
                auto_approve=True,
                auto_approve_temporary_only=False,
                auto_approve_risks=True,
            )
        else:
            self._command("compaction", "survey", APPLICATION_ID)
            self._command("compaction", "plan", "--policy", f"topics={_LARGEST}")
            if not nothing_planned(home):
                self._command("compaction", "apply", "--yes")
                self._command("compaction", "verify")
        for line in what_was_won(home):
            self._screen.say(line)

    def _judge(self) -> None:
        self._screen.title("7. The verdict: every table recomputed from its input, and compared")
        status = self._command("verify", str(self._sql), check=False)
        self._outcome.verified = status == 0

    def _command(self, *arguments: str, check: bool = True) -> int:
        """Run a command in the foreground, as a user would; returns its exit status.

        Raises:
            HoldfastError: it failed and `check` is set.
        """
        full = [*arguments, *self._home()]
        self._screen.command(full)
        status = self._children.start(_holdfast(full)).wait()
        if check and status != 0:
            raise HoldfastError(f"`holdfast {' '.join(full)}` ended with {status}.")
        return status

    def _home(self) -> Sequence[str]:
        return ("--home", str(self._options.home))

    def _clear(self) -> bool:
        """End all started processes; False if one would not end."""
        self._children.stop()
        pids = [*self._deployed.pids(), *self._backing.pids()]
        self._deployed.remove()
        self._backing.stop()
        left = self._children.leftovers(pids)
        self._screen.say("nothing is left running" if not left else f"left running: {left}")
        return not left

    def _report(self) -> None:
        screen = self._screen
        screen.show(kills_table(self._outcome.kills))
        screen.say(f"files: {self._files.home} (deploy/demo/driver.log, run/, state/, kafka/)")
        screen.say("to look further:")
        home = list(self._home())
        screen.command(["kafka", "start", *home])
        screen.command(["registry", "start", *home])
        screen.command(["inspect", "flights_per_origin_hour", str(self._sql), *home])
        screen.command(["deploy", APPLICATION_ID, str(self._sql), *home])
        screen.command(["serve", str(self._sql), *home])
        screen.command(["kafka", "stop", *home])
        self._verdict()

    def _verdict(self) -> None:
        good = self._outcome.good
        word = "[green]exactly once: valid[/green]" if good else "[red]NOT PROVED[/red]"
        self._screen.show(f"\n[bold]{word}[/bold]")


def _holdfast(arguments: Sequence[str]) -> list[str]:
    return module_command(HOLDFAST, *arguments)


def _telling(bar: Bar) -> Tell:
    def tell(now: Progress, note: str) -> None:
        bar.update(now.produced, now.committed, note)

    return tell
