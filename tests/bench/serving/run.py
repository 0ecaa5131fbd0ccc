"""`python -m tests.bench.serving.run`: reading a table of 1 M rows (make bench-serving).

Look-ups by key over HTTP from 64 connections, the server on one core and the load on another:
`holdfast serve` beside Kafka Streams' interactive queries behind the JDK's HTTP server.  Then a
job runs into the table, at a steady rate and at full speed: how far the server is behind, and how
long after a change is committed a push query's client has it.  Then processes of a small job are
killed while its table is read.
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
from dataclasses import replace
from pathlib import Path

import click
import httpx
import orjson

from holdfast.cli.statements.options import sigterm_interrupts
from holdfast.local.processes import end_session
from tests.bench.input import made, write
from tests.bench.measure.latency import RATE, load
from tests.bench.measure.machine import describe
from tests.bench.measure.measure import Mark, follow, memory_of
from tests.bench.report.screen import Screen
from tests.bench.running import Running
from tests.bench.serving.kills import kills as kills_of
from tests.bench.serving.live import Live, live
from tests.bench.serving.report import Answers, Found
from tests.bench.systems.broker import Cluster
from tests.bench.systems.holdfast import Holdfast, statements
from tests.bench.systems.kafka_streams import KafkaStreams
from tests.bench.systems.peers import Case, Command
from tests.bench.workloads import INPUTS, Query

_SERVER_CORE, _LOAD_CORE = 0, 1
_LIMIT_S, _POLL_S = 300.0, 0.2
_PARTS = ("look-ups", "following", "kills")
_ROOT = Path(__file__).parents[2]


@click.command()
@click.option("--records", type=click.IntRange(1000), default=3_000_000, show_default=True)
@click.option("--connections", type=click.IntRange(1), default=64, show_default=True)
@click.option("--seconds", type=click.FloatRange(1), default=15.0, show_default=True)
@click.option("--kills", type=click.IntRange(0), default=10, show_default=True)
@click.option("--only", type=click.Choice(_PARTS), multiple=True, help="Parts.  [default: all]")
@click.option("--home", type=Path, default=Path(".holdfast/bench"), help="Results and tools.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def main(
    records: int,
    connections: int,
    seconds: float,
    kills: int,
    only: Sequence[str],
    home: Path,
    as_json: bool,
) -> None:
    """Measure query servers."""
    home, parts = home.absolute(), set(only or _PARTS)
    found = Found(describe(), connections)
    with sigterm_interrupts():
        if parts - {"kills"}:
            _Bench(home, records, connections, seconds).run(found, parts)
        if "kills" in parts and kills:
            _kill(home / "work-kills", kills, found)
    folder = home / time.strftime("serving-%Y%m%d-%H%M%S")
    folder.mkdir(parents=True)
    told = found.as_json()
    (folder / "results.json").write_bytes(orjson.dumps(told, option=orjson.OPT_INDENT_2))
    (folder / "report.md").write_text(found.markdown(), encoding="utf-8")
    click.echo(orjson.dumps(told).decode() if as_json else found.markdown())
    click.echo(f"{folder}/report.md, results.json", err=True)


def _kill(work: Path, rounds: int, found: Found) -> None:
    Screen().say(f"{rounds} kills, and look-ups meanwhile")
    shutil.rmtree(work, ignore_errors=True)
    found.killed, found.verdict = kills_of(work, rounds)
    shutil.rmtree(work)


class _Bench:
    """One broker, one table, both engines one after the other."""

    def __init__(self, home: Path, records: int, connections: int, seconds: float) -> None:
        self._home = home
        self._records = records
        self._seconds = seconds
        self._load = (str(connections), str(seconds))
        self._screen = Screen()
        self._work = home / "work"
        self._cluster = Cluster(self._work / "broker", self._screen.say)

    def run(self, found: Found, parts: set[str]) -> None:
        streams = KafkaStreams(self._home / "tools")
        if "look-ups" in parts:
            streams.prepare(self._screen.say)
        shutil.rmtree(self._work, ignore_errors=True)
        self._cluster.start()
        try:
            topic = self._write("sales", self._records)
            case = self._case("serving-holdfast", topic)
            self._fill(case)
            with self._serve(case) as (port, pid):
                if "look-ups" in parts:
                    found.answers.append(self._asked("holdfast", port, pid))
                if "following" in parts:
                    _on_cores(pid, set(range(os.cpu_count() or 1)))
                    found.following.append(self._steady(case, port, pid))
                    found.following.append(self._catching_up(case, port, pid))
            if "look-ups" in parts:
                other = self._case("serving-streams", topic)
                found.answers.append(self._streams(streams, other))
        finally:
            self._cluster.stop()
            shutil.rmtree(self._work, ignore_errors=True)

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
            time.sleep(_POLL_S)
        raise RuntimeError("the server did not become level in time")

    def _asked(self, engine: str, port: int, pid: int) -> Answers:
        self._screen.say(f"look-ups: {engine}")
        argv = [sys.executable, "-m", "tests.bench.serving.lookups", str(port), engine, *self._load]
        paths = os.pathsep.join([str(_ROOT), str(_ROOT / "jobs")])
        load = subprocess.Popen(
            argv, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": paths}, cwd=_ROOT
        )
        os.sched_setaffinity(load.pid, {_LOAD_CORE})
        out, _ = load.communicate()
        if load.returncode:
            raise RuntimeError(f"the load ended with {load.returncode}")
        return Answers(engine, memory_mb=memory_of(pid) / 1e6, **orjson.loads(out))

    def _steady(self, case: Case, port: int, pid: int) -> Live:
        """A job that keeps up with its input, as running ones do."""
        peer = Holdfast()
        self._screen.say(f"the job takes {RATE:,} records/s, the server follows")
        with Running(peer, case) as running, load(case.bootstrap, case.input_topic):
            self._caught_up(peer.group(case), case, running)
            with live(self._cluster, case, port, pid) as seen:
                self._watch(running)
        return seen.found(f"{RATE:,} records/s")

    def _caught_up(self, group: str, case: Case, running: Running) -> None:
        """Until it has committed something and is at most a second behind the load."""
        before = self._cluster.committed(group, case.input_topic)
        self._committed(group, case, running, before + 1)
        deadline = time.monotonic() + _LIMIT_S
        while True:
            running.check()
            done = self._cluster.committed(group, case.input_topic)
            if self._cluster.size(case.input_topic) - done <= RATE:
                return
            if time.monotonic() > deadline:
                raise RuntimeError("the job did not catch up with the load")
            time.sleep(_POLL_S)

    def _watch(self, running: Running) -> None:
        deadline = time.monotonic() + self._seconds
        while time.monotonic() < deadline:
            running.check()
            time.sleep(_POLL_S)

    def _catching_up(self, case: Case, port: int, pid: int) -> Live:
        """A job that has as many records before it as the table was filled from."""
        self._more(case.input_topic, self._records)
        peer = Holdfast()
        self._screen.say("the job runs at full speed, the server follows")
        with Running(peer, case) as running, live(self._cluster, case, port, pid) as seen:
            whole = self._cluster.size(case.input_topic)
            self._committed(peer.group(case), case, running, whole)
        return seen.found("full speed")

    def _streams(self, peer: KafkaStreams, case: Case) -> Answers:
        port = _free_port()
        command = peer.commands(case)[0]
        case.folder.mkdir(parents=True, exist_ok=True)
        java, *rest = command.argv
        # Else the JDK's server waits 40 ms for the client's acknowledgement.
        asked = replace(command, argv=[java, "-Dsun.net.httpserver.nodelay=true", *rest, str(port)])
        with Running(_Asked(peer, asked), case) as running:
            whole = self._cluster.size(case.input_topic)
            self._committed(peer.group(case), case, running, whole)
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
