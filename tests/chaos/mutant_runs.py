"""`python -m tests.chaos.mutant_runs`: the whole proof, on real processes, of each broken engine
(make chaos-mutants).

Each mutant is a run of `make chaos` of its own, short and aimed at the moment that shows it; seven
runs of the engine as it is come first and must be valid.  Mutants that only a simulated history
shows (two drivers at one step, a cut of batches, another rule for a value) come last.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import orjson

from tests.support.servers.redis_server import RedisServer

__all__ = ["RUNS", "Ended", "MutantRun", "as_table", "main", "outcome_of"]

_ROOT = Path(__file__).parents[2]
_RUN = "run"
_SIMULATED = ("test_mutants.py", "test_undone.py", "test_judged_values.py")


@dataclass(frozen=True)
class MutantRun:
    """The options of one mutant's run.

    Attributes:
        mutant: of `MUTANTS`; empty for the engine as it is.
        zombies: workers outlive their executors, which nothing but fencing keeps from harm.
        load: more that is asked of the run.
    """

    mutant: str
    component: str
    fault: str
    moment: str
    rounds: int = 2
    seed: int = 5
    zombies: bool = False
    load: str = ""

    @property
    def name(self) -> str:
        kind = "-zombies" if self.zombies else _KINDS.get(self.load, "")
        return self.mutant or f"none{kind}"

    @property
    def needs_redis(self) -> bool:
        return "{redis}" in self.load

    def command(self, home: Path, redis: str = "") -> list[str]:
        """`make chaos` of it; no query servers, which no mutant is about."""
        aimed = f"--components {self.component} --faults {self.fault} --moments {self.moment}"
        # They sleep for longer than it takes to replace them, also on a slow machine.
        asleep = " --set transaction.timeout.ms=20000" if self.zombies else ""
        load = self.load.format(home=home, redis=redis)
        asked = {
            "MUTANT": self.mutant,
            "ROUNDS": self.rounds,
            "SEED": self.seed,
            "CHAOS_SERVERS": 0,
            "CHAOS_HOME": home,
            "CHAOS_ARGS": f"--run {_RUN} {aimed}{asleep} {load}".rstrip(),
        }
        return ["make", "chaos-local", *(f"{name}={value}" for name, value in asked.items())]


# An executor stopped between its look at the commit marker and its transaction, killed meanwhile:
# the batch is done elsewhere when its worker goes on.  This seed has it twice.
_ZOMBIES = ("executor", "kill,pause", "checked,recovery", 6, 31, True)
_STANDBY = "--keys 20000 --set standby.replicas=1"
_SNAPSHOTS = "--keys 20000 --set snapshot.uri={home}/snapshots --set snapshot.interval.ms=1000"
_DAMAGED = f"{_SNAPSHOTS} --set snapshot.retained=1"
_REMOTE = "--keys 20000 --set state.backend=remote --set state.remote.uri={redis}"
_RESCALE = "--keys 2000"
_KINDS = {
    _RESCALE: "-rescales",
    _STANDBY: "-standbys",
    _SNAPSHOTS: "-snapshots",
    _DAMAGED: "-damaged-snapshots",
    _REMOTE: "-remote-stores",
}
RUNS = (
    MutantRun("", "executor,driver", "kill", "produced,committed"),
    MutantRun("", *_ZOMBIES),
    # The owner's volume is lost, and a standby takes over.
    MutantRun("", "standby", "lose-volume", "random", load=_STANDBY),
    # Executors and drivers die while state is copied, several times.
    MutantRun("", "query", "rescale", "random", rounds=4, load=_RESCALE),
    # There is none, and a store comes back from its snapshot; or from an older one, or without.
    MutantRun("", "executor", "lose-volume", "random", load=_SNAPSHOTS),
    MutantRun(
        "",
        "snapshot-store,executor",
        "damage-snapshot,cut-off,lose-volume",
        "random",
        rounds=4,
        load=_DAMAGED,
    ),
    MutantRun("", "remote-store,executor", "empty-stores,kill", "random", load=_REMOTE),
    MutantRun("commit-skipped", "executor", "kill", "random"),
    MutantRun("write-before-commit", "executor", "kill", "produced"),
    MutantRun("marker-left-out", "driver", "kill", "written"),
    MutantRun("fencing-left-out", *_ZOMBIES),
    MutantRun("skip-rule-off-by-one", "executor", "kill", "committed"),
    MutantRun("stale-restore", "executor", "kill", "committed"),
    MutantRun("tombstone-ignored", "executor", "kill", "random"),
    MutantRun("sink-time-now", "executor", "kill", "random", rounds=1),
    MutantRun("standby-misses-rows", "standby", "lose-volume", "random", load=_STANDBY),
    MutantRun("snapshot-misses-rows", "executor", "lose-volume", "random", load=_SNAPSHOTS),
    MutantRun("rescale-misses-the-tail", "query", "rescale", "random", load=_RESCALE),
    MutantRun("key-of-a-life", "driver", "kill", "random"),
    # So many keys that most are not written again between the swap and the verdict.
    MutantRun(
        "store-of-another", "executor", "swap-volumes", "random", rounds=1, load="--keys 20000"
    ),
    MutantRun("offset-of-another", "topic", "recreate-topic", "random", rounds=1),
    MutantRun(
        "remote-loss-unnoticed", "remote-store", "empty-stores", "random", rounds=1, load=_REMOTE
    ),
)


@dataclass(frozen=True)
class Ended:
    """How one run ended; `found_by` are the checkers that said invalid."""

    run: MutantRun
    verdict: str
    found_by: tuple[str, ...]
    seconds: float

    @property
    def as_it_should(self) -> bool:
        return self.verdict == ("invalid" if self.run.mutant else "valid")


def outcome_of(verdict: dict[str, Any]) -> tuple[str, tuple[str, ...]]:
    """(verdict, checkers that said invalid, each once) of a `verdict.json`."""
    tables = [finding for table in verdict["job"]["tables"] for finding in table["findings"]]
    bad = [f["checker"] for f in [*tables, *verdict["findings"]] if f["verdict"] == "invalid"]
    return verdict["verdict"], tuple(dict.fromkeys(bad))


def as_table(ended: Sequence[Ended]) -> str:
    """The outcomes for people."""
    rows = [("mutant", "verdict", "seconds", "found by")]
    rows += [(e.run.name, e.verdict, f"{e.seconds:.0f}", ", ".join(e.found_by)) for e in ended]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


@click.command()
@click.option("--only", help=f"Of {', '.join(r.name for r in RUNS)}.  [default: all]")
@click.option(
    "--home", type=click.Path(path_type=Path), default=Path(".holdfast/mutants"), show_default=True
)
def main(only: str | None, home: Path) -> None:
    """Judge a run of each broken engine; exits with 1 unless each is found to be invalid."""
    names = only.split(",") if only else [run.name for run in RUNS]
    unknown = set(names) - {run.name for run in RUNS}
    if unknown:
        raise click.BadParameter(
            f"there is no {', no '.join(sorted(unknown))}", param_hint="--only"
        )
    runs = [run for run in RUNS if run.name in names]
    if shutil.which("redis-server") is None and any(run.needs_redis for run in runs):
        skipped = ", ".join(run.name for run in runs if run.needs_redis)
        click.echo(f"redis-server is not installed, so these are left out: {skipped}", err=True)
        runs = [run for run in runs if not run.needs_redis]
    ended = list(_ended(runs, home.absolute()))
    click.echo(as_table(ended))
    found = all(e.as_it_should for e in ended) and (only is not None or _simulated_are_found())
    raise SystemExit(0 if found else 1)


def _simulated_are_found() -> bool:
    """Runs the mutants that need no process, a line each."""
    files = [str(_ROOT / "tests" / "simulation" / name) for name in _SIMULATED]
    command = [sys.executable, "-m", "pytest", "-v", "--no-header", "-p", "no:cacheprovider"]
    return subprocess.run([*command, *files], cwd=_ROOT, check=False).returncode == 0


def _ended(runs: Sequence[MutantRun], home: Path) -> Iterator[Ended]:
    for number, run in enumerate(runs, 1):
        own = home / run.name
        click.echo(f"{number} of {len(runs)}: {run.name}, its log in {own}.log", err=True)
        yield _one(run, own)


def _one(run: MutantRun, home: Path) -> Ended:
    judged = home / "chaos" / _RUN
    home.mkdir(parents=True, exist_ok=True)
    for file in judged.glob("*"):
        file.unlink()
    began = time.monotonic()
    environment = {**os.environ, "CHAOS_ORPHANS": "1" if run.zombies else ""}
    with ExitStack() as server, home.with_suffix(".log").open("w") as log:
        redis = server.enter_context(RedisServer(home)).uri if run.needs_redis else ""
        command = run.command(home, redis)
        subprocess.run(command, cwd=_ROOT, env=environment, stdout=log, stderr=log, check=False)
    seconds = time.monotonic() - began
    file = judged / "verdict.json"
    verdict, found_by = outcome_of(orjson.loads(file.read_bytes())) if file.exists() else ("", ())
    return Ended(run, verdict or "none", found_by, seconds)


if __name__ == "__main__":
    main()
