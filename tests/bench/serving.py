"""`python -m tests.bench.serving`: reading a table of 1 M rows (make bench-serving).

Look-ups by key over HTTP from 64 connections, the server on one core and the load on another:
`holdfast serve` beside Kafka Streams' interactive queries behind the JDK's HTTP server.  Then a
job runs into the table at full speed: how far the server is behind, and how long after a change
is committed a push query's client has it.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import click
import httpx
import orjson

from holdfast.cli.options import sigterm_interrupts
from holdfast.local.processes import end_session
from tests.bench.broker import Cluster
from tests.bench.holdfast import Holdfast, statements
from tests.bench.input import made, write
from tests.bench.kafka_streams import KafkaStreams
from tests.bench.machine import describe
from tests.bench.measure import Mark, follow, memory_of
from tests.bench.peers import Case, Command
from tests.bench.running import Running
from tests.bench.screen import Screen
from tests.bench.serving_live import Live, live
from tests.bench.workloads import INPUTS, Query

_SERVER_CORE, _LOAD_CORE = 0, 1
_LIMIT_S = 300.0
_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Answers:
    """Look-ups of one engine."""

    engine: str
    rate: float
    p50_ms: float
    p99_ms: float
    memory_mb: float
    wrong: int
    failed: str


@click.command()
@click.option("--records", type=click.IntRange(1000), default=3_000_000, show_default=True)
@click.option("--connections", type=click.IntRange(1), default=64, show_default=True)
@click.option("--seconds", type=click.FloatRange(1), default=15.0, show_default=True)
@click.option("--home", type=Path, default=Path(".holdfast/bench"), help="Results and tools.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def main(records: int, connections: int, seconds: float, home: Path, as_json: bool) -> None:
    """Measure query servers."""
    home = home.absolute()
    with sigterm_interrupts():
        answers, following = _Bench(home, records, connections, seconds).run()
    machine = describe()
    found = {
        "machine": machine,
        "look-ups": [vars(a) for a in answers],
        "following": vars(following),
    }
    folder = home / time.strftime("serving-%Y%m%d-%H%M%S")
    folder.mkdir(parents=True)
    (folder / "results.json").write_bytes(orjson.dumps(found, option=orjson.OPT_INDENT_2))
    text = _markdown(machine, connections, answers, following)
    (folder / "report.md").write_text(text, encoding="utf-8")
    click.echo(orjson.dumps(found).decode() if as_json else text)
    click.echo(f"{folder}/report.md, results.json", err=True)


def _markdown(
    machine: dict[str, str], connections: int, answers: Sequence[Answers], following: Live
) -> str:
    head = "".join(f"* {name}: {value}\n" for name, value in machine.items())
    rows = "".join(
        f"| {a.engine} | {a.rate:,.0f} | {a.p50_ms:.2f} | {a.p99_ms:.2f} | {a.memory_mb:,.0f} "
        f"| {a.wrong} | {a.failed or '-'} |\n"
        for a in answers
    )
    return (
        f"# Reading a table\n\n{head}\n"
        f"## Look-ups by key, {connections} connections, server on one core\n\n"
        "| engine | a second | p50 ms | p99 ms | memory MB | wrong | failed |\n"
        f"|---|---|---|---|---|---|---|\n{rows}\n"
        "## While a job runs into the table at full speed\n\n"
        "| | p50 | p99 | of |\n|---|---|---|---|\n"
        f"| commit to push query's client, ms | {following.push_p50_ms:.0f} "
        f"| {following.push_p99_ms:.0f} | {following.pushed} changes |\n"
        f"| records that the server is behind | {following.lag_p50:,.0f} "
        f"| {following.lag_p99:,.0f} | {following.looks} looks |\n"
    )


class _Bench:
    """One broker, one table, both engines one after the other."""

    def __init__(self, home: Path, records: int, connections: int, seconds: float) -> None:
        self._home = home
        self._records = records
        self._load = (str(connections), str(seconds))
        self._screen = Screen()
        self._work = home / "work"
        self._cluster = Cluster(self._work / "broker", self._screen.say)

    def run(self) -> tuple[list[Answers], Live]:
        streams = KafkaStreams(self._home / "tools")
        streams.prepare(self._screen.say)
        shutil.rmtree(self._work, ignore_errors=True)
        self._cluster.start()
        try:
            topic = self._write("sales", self._records)
            case = self._case("serving-holdfast", topic)
            self._fill(case)
            with self._serve(case) as (port, pid):
                answers = [self._asked("holdfast", port, pid)]
                _on_cores(pid, {_SERVER_CORE, _LOAD_CORE})
                following = self._following(case, port)
            answers.append(self._streams(streams, self._case("serving-streams", topic)))
        finally:
            self._cluster.stop()
            shutil.rmtree(self._work, ignore_errors=True)
        return answers, following

    def _write(self, name: str, records: int) -> str:
        self._cluster.create(name)
        self._more(name, records)
        return name

    def _more(self, topic: str, records: int) -> None:
        ((_, chunks),) = made(INPUTS["uniform"], records, int(time.time() * 1000))
        with self._screen.bar(f"writing {topic}", records) as tell:
            write(self._cluster.client, topic, chunks, tell)

    def _case(self, name: str, topic: str) -> Case:
        folder = self._work / name
        case = Case(self._cluster.bootstrap, name, (topic,), Query.CUSTOMER, folder, 0)
        self._cluster.create(case.sink_topic)
        return case

    def _fill(self, case: Case) -> None:
        """The job, to the input's end."""
        peer = Holdfast()
        bar = self._screen.bar("filling the table", self._records)
        with bar as tell, Running(peer, case) as running:
            self._committed(peer.group(case), case, running, self._records, tell)

    def _committed(
        self,
        group: str,
        case: Case,
        running: Running,
        records: int,
        tell: Callable[[int], None] = lambda _: None,
    ) -> None:
        deadline = time.monotonic() + _LIMIT_S

        def enough(mark: Mark) -> bool:
            running.check()
            tell(mark.records)
            if time.monotonic() > deadline:
                raise RuntimeError(f"too slow: {mark.records} of {records} records")
            return mark.records >= records

        follow(lambda: self._cluster.committed(group, case.input_topic), enough)

    @contextmanager
    def _serve(self, case: Case) -> Iterator[tuple[int, int]]:
        port = _free_port()
        script = case.folder / "totals.sql"
        script.write_text(statements(case), encoding="utf-8")
        holdfast = str(Path(sys.executable).parent / "holdfast")
        given = [f"bootstrap.servers={case.bootstrap}", f"application.id={case.application}"]
        argv = [holdfast, "serve", str(script), "--listen", f"127.0.0.1:{port}"]
        argv += ["--home", str(case.folder / "server")]
        argv += [part for value in given for part in ("--set", value)]
        with _process(argv, case.folder / "serve.log") as pid:
            self._screen.say("the server restores its copy")
            self._level(port)
            yield port, pid

    def _level(self, port: int) -> None:
        deadline = time.monotonic() + _LIMIT_S
        while time.monotonic() < deadline:
            if _is_level(f"http://127.0.0.1:{port}/v1/tables/totals"):
                return
            time.sleep(0.2)
        raise RuntimeError("the server did not become level in time")

    def _asked(self, engine: str, port: int, pid: int) -> Answers:
        self._screen.say(f"look-ups: {engine}")
        argv = [sys.executable, "-m", "tests.bench.lookups", str(port), engine, *self._load]
        paths = os.pathsep.join([str(_ROOT), str(_ROOT / "jobs")])
        load = subprocess.Popen(
            argv, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": paths}, cwd=_ROOT
        )
        os.sched_setaffinity(load.pid, {_LOAD_CORE})
        out, _ = load.communicate()
        if load.returncode:
            raise RuntimeError(f"the load ended with {load.returncode}")
        return Answers(engine, memory_mb=memory_of(pid) / 1e6, **orjson.loads(out))

    def _following(self, case: Case, port: int) -> Live:
        """A job with twice the input, and what a server's readers see meanwhile."""
        self._more(case.input_topic, self._records)
        peer = Holdfast()
        self._screen.say("the job runs, the server follows")
        with Running(peer, case) as running, live(self._cluster, case, port) as seen:
            self._committed(peer.group(case), case, running, 2 * self._records)
        return seen.found()

    def _streams(self, peer: KafkaStreams, case: Case) -> Answers:
        port = _free_port()
        command = peer.commands(case)[0]
        case.folder.mkdir(parents=True, exist_ok=True)
        java, *rest = command.argv
        # Else the JDK's server waits 40 ms for the client's acknowledgement.
        asked = replace(command, argv=[java, "-Dsun.net.httpserver.nodelay=true", *rest, str(port)])
        with Running(_Asked(peer, asked), case) as running:
            self._committed(peer.group(case), case, running, 2 * self._records)
            _on_cores(running.pids[0], {_SERVER_CORE})
            return self._asked("kafka-streams", port, running.pids[0])


class _Asked(KafkaStreams):
    """Kafka Streams with a port to ask it at."""

    def __init__(self, peer: KafkaStreams, command: Command) -> None:
        self.__dict__.update(vars(peer))
        self._command = command

    def commands(self, case: Case) -> list[Command]:
        return [self._command]


def _on_cores(pid: int, cores: set[int]) -> None:
    """All threads that a process has now."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(thread.name), cores)


def _is_level(table: str) -> bool:
    """Whether the server has every record of every state partition."""
    try:
        about, found = httpx.get(table), httpx.get(f"{table}/positions")
    except httpx.TransportError:
        return False
    if about.status_code != 200 or found.status_code != 200:
        return False
    parts = found.json()["partitions"].values()
    there = [p for p in parts if p["position"] and not p["lag"] and not p["restoring"]]
    return len(there) == int(about.json()["partitions"])


@contextmanager
def _process(argv: Sequence[str], log: Path) -> Iterator[int]:
    """A server on its one core."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            argv, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        os.sched_setaffinity(process.pid, {_SERVER_CORE})
        try:
            yield process.pid
        finally:
            process.terminate()
            try:
                process.wait(20)
            finally:
                end_session(process.pid, 2.0)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


if __name__ == "__main__":
    main()
