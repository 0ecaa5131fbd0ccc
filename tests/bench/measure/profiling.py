"""`make profile` (`python -m tests.bench.measure.profiling`): where time goes, stage by stage."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click
import orjson
import psutil

from holdfast.local.processes import session_members
from tests.bench.__main__ import FULL
from tests.bench.input import made, write
from tests.bench.measure.machine import describe
from tests.bench.measure.measure import Mark, crossing, follow, memory_of, rate
from tests.bench.measure.profile_table import Profile, markdown, start_times
from tests.bench.measure.stages import stages
from tests.bench.measure.threads import NATIVE, ThreadTimes
from tests.bench.report.screen import Screen
from tests.bench.running import Running
from tests.bench.systems.broker import Cluster
from tests.bench.systems.holdfast import Holdfast
from tests.bench.systems.peers import Case
from tests.bench.workloads import INPUTS, WORKLOADS, Kind, Workload

_REQUIREMENTS = Path(__file__).parent / "requirements-profile.txt"
_PER_SECOND = 50
_LIMIT_S = 900.0
_PHASES = ("batch", "get", "merge", "produce", "commit", "put")


@click.command()
@click.option("--workload", default="a", show_default=True, help="(a) to (d), (h) to (k), a10.")
@click.option("--records", type=click.IntRange(1000), default=3_000_000, show_default=True)
@click.option("--set", "settings", multiple=True, help="A setting of Holdfast, key=value.")
@click.option("--home", type=Path, default=Path(".holdfast/bench"), help="Results and tools.")
def main(workload: str, records: int, settings: Sequence[str], home: Path) -> None:
    """Run one workload on Holdfast and tell what its time is spent on."""
    chosen = WORKLOADS.get(workload)
    if chosen is None or chosen.kind is not Kind.THROUGHPUT:
        raise click.UsageError(
            f"{workload!r} has no steady rate; take one of a, b, c, d, h, i, j, k, a10."
        )
    home = home.absolute()
    folder = home / time.strftime("profile-%Y%m%d-%H%M%S")
    folder.mkdir(parents=True)
    session = _Session(home, folder, chosen, records, Holdfast(settings))
    found = session.run()
    text = markdown(found)
    (folder / "profile.md").write_text(text, encoding="utf-8")
    (folder / "profile.json").write_bytes(orjson.dumps(found, option=orjson.OPT_INDENT_2))
    click.echo(text)
    click.echo(f"{folder}/profile.md, profile.json, stacks-*.txt", err=True)


@dataclass
class _Session:
    """One profiled run; `folder` keeps its stacks."""

    home: Path
    folder: Path
    workload: Workload
    records: int
    peer: Holdfast
    screen: Screen = field(default_factory=Screen)

    def run(self) -> Profile:
        work = self.home / "work"
        shutil.rmtree(work, ignore_errors=True)
        cluster = Cluster(work / "broker", self.screen.say)
        machine, spy = describe(), _py_spy(self.home / "tools", self.screen)
        try:
            cluster.start()
            case = self._case(cluster, work)
            with Running(self.peer, case) as running:
                return self._profiled(cluster, case, running, (machine, spy))
        finally:
            cluster.stop()
            shutil.rmtree(work, ignore_errors=True)

    def _case(self, cluster: Cluster, work: Path) -> Case:
        spec, topics = INPUTS[self.workload.input], []
        for stream, chunks in made(spec, self.records, int(time.time() * 1000)):
            topics.append(f"input-{stream}")
            cluster.create(topics[-1])
            with self.screen.bar(f"writing {topics[-1]}", self.records) as tell:
                write(cluster.client, topics[-1], chunks, tell)
        batch = max(1, min(FULL.batch, self.records // 8))
        name = f"profile-{self.workload.name}"
        case = Case(cluster.bootstrap, name, tuple(topics), self.workload.query, work / name, batch)
        cluster.create(case.sink_topic)
        return case

    def _profiled(
        self, cluster: Cluster, case: Case, running: Running, known: tuple[dict[str, str], str]
    ) -> Profile:
        machine, spy = known
        spawned = datetime.now(UTC).astimezone() - timedelta(
            seconds=time.monotonic() - running.spawned
        )
        root = running.pids[0]
        with self.screen.bar("warming up", self.records) as tell:
            warm = self._follow(cluster, case, running, self.records // 8, tell)
            threads = ThreadTimes(lambda: session_members(root))
            threads.start()
            before, clock = threads.totals(), _metrics(self.peer, case)
            roles = _roles(self.peer, case, root)
            spies = _attach(spy, roles, self.folder)
        with self.screen.bar("profiling", self.records) as tell:
            end = self._follow(cluster, case, running, self.records, tell)
        after, clock_after = threads.totals(), _metrics(self.peer, case)
        memory = _memory(_roles(self.peer, case, root))
        threads.stop()
        _detach(spies)
        roles = {**_roles(self.peer, case, root), **roles}
        return Profile(
            machine=machine,
            workload=self.workload.name,
            settings=self.peer.notes,
            records=end.records - warm.records,
            seconds=end.at - warm.at,
            rate=rate(warm, end),
            threads=_by_role(before, after, roles),
            stages=_stages(self.folder, roles, _python_seconds(before, after)),
            clock={name: clock_after[name] - clock.get(name, 0.0) for name in clock_after},
            memory=memory,
            start=start_times((case.folder / "out-0.log").read_text("utf-8"), spawned),
        )

    def _follow(
        self, cluster: Cluster, case: Case, running: Running, wanted: int, tell: Any
    ) -> Mark:
        deadline = time.monotonic() + _LIMIT_S
        group = self.peer.group(case)

        def enough(mark: Mark) -> bool:
            running.check()
            tell(mark.records)
            if time.monotonic() > deadline:
                raise RuntimeError(f"{mark.records} of {wanted} records in {_LIMIT_S:.0f} s")
            return mark.records >= wanted

        marks = follow(
            lambda: sum(cluster.committed(group, topic) for topic in case.topics), enough
        )
        return crossing(marks, wanted)


def _stages(
    folder: Path, roles: Mapping[int, str], spent: Mapping[int, float]
) -> dict[str, dict[str, float]]:
    """CPU seconds by role and stage: samples share what a process's Python threads have used.

    Alone, samples would tell too much: a thread that waits for a core looks busy.
    """
    found: dict[str, dict[str, float]] = {}
    for pid, role in roles.items():
        stacks = folder / f"stacks-{pid}.txt"
        parts = stages(stacks.read_text("utf-8").splitlines()) if stacks.is_file() else {}
        for stage, samples in parts.items():
            into = found.setdefault(role, {})
            share = samples / sum(parts.values())
            into[stage] = into.get(stage, 0.0) + share * spent.get(pid, 0.0)
    return found


def _python_seconds(
    before: Mapping[tuple[int, str], float], after: Mapping[tuple[int, str], float]
) -> dict[int, float]:
    """CPU seconds between two moments by pid, without the threads of native libraries."""
    found: dict[int, float] = {}
    for (pid, group), seconds in after.items():
        if group not in NATIVE:
            found[pid] = found.get(pid, 0.0) + seconds - before.get((pid, group), 0.0)
    return found


def _py_spy(tools: Path, screen: Screen) -> str:
    """The path of py-spy, installed the first time; empty when it cannot be."""
    folder = tools / "py-spy"
    spy = folder / "bin" / "py-spy"
    if not spy.is_file():
        screen.say("installing py-spy")
        pip = [sys.executable, "-m", "pip", "--no-input", "install", "--quiet", "--require-hashes"]
        command = [*pip, "--target", str(folder), "-r", str(_REQUIREMENTS)]
        ran = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
        if ran.returncode:
            screen.say(f"no stages of Python code: py-spy is missing ({ran.stderr[-200:]})")
            return ""
    return str(spy)


def _roles(peer: Holdfast, case: Case, root: int) -> dict[int, str]:
    """The role of each live process of the job, by pid."""
    status = peer.status(case)
    if status is None:
        raise RuntimeError("the job has no status file")
    named = {root: "driver: Python", status.jvm_pid: "driver: JVM"}
    named |= {e.jvm_pid: "executors: JVM" for e in status.executors}
    # It reads as well, where nothing goes through Spark SQL; else others below the executor do.
    named |= {e.worker_pid: "executors: Python with the state" for e in status.executors}
    jvms = {e.jvm_pid for e in status.executors}
    for process in session_members(root):
        try:
            parents = {p.pid for p in process.parents()}
        except psutil.Error:
            continue
        if process.pid not in named:
            below = "executors: other Python" if parents & jvms else "driver: source planner"
            named[process.pid] = below
    return named


def _memory(roles: Mapping[int, str]) -> dict[str, float]:
    """Megabytes (PSS where the system tells) by role."""
    found: dict[str, float] = {}
    for pid, role in roles.items():
        found[role] = found.get(role, 0.0) + memory_of(pid) / 1e6
    return found


def _attach(spy: str, roles: Mapping[int, str], folder: Path) -> list[subprocess.Popen[bytes]]:
    """A py-spy for every Python process; what it cannot attach to (Java, a daemon) it leaves."""
    if not spy:
        return []
    found = []
    for pid, role in roles.items():
        if not role.endswith("JVM"):
            command = [spy, "record", "--pid", str(pid), "--rate", str(_PER_SECOND)]
            command += ["--format", "raw", "--output", str(folder / f"stacks-{pid}.txt")]
            command += ["--duration", str(int(_LIMIT_S)), "--nonblocking"]
            quiet = subprocess.DEVNULL
            found.append(subprocess.Popen(command, stdout=quiet, stderr=quiet))
    return found


def _detach(spies: Sequence[subprocess.Popen[bytes]]) -> None:
    """They write their stacks when they are interrupted."""
    for spy in spies:
        if spy.poll() is None:
            spy.send_signal(signal.SIGINT)
    for spy in spies:
        spy.wait(60)


def _metrics(peer: Holdfast, case: Case) -> dict[str, float]:
    """Seconds and counts of the job's own stopwatches, summed over queries."""
    status = peer.status(case)
    if status is None:
        return {}
    with urllib.request.urlopen(status.metrics_url, timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    found: dict[str, float] = {}
    for line in lines:
        short = line.partition("{")[0].removeprefix("holdfast_").replace("_latency_seconds", "")
        phase, _, what = short.rpartition("_")
        if phase in _PHASES and what in {"sum", "count"}:
            found[short] = found.get(short, 0.0) + float(line.rpartition(" ")[2])
    return found


def _by_role(
    before: Mapping[tuple[int, str], float],
    after: Mapping[tuple[int, str], float],
    roles: Mapping[int, str],
) -> dict[str, dict[str, float]]:
    """CPU seconds between two moments by role and thread group."""
    found: dict[str, dict[str, float]] = {}
    for key, seconds in after.items():
        pid, group = key
        into = found.setdefault(roles.get(pid, "ended: other"), {})
        into[group] = into.get(group, 0.0) + seconds - before.get(key, 0.0)
    return found


if __name__ == "__main__":
    main()
