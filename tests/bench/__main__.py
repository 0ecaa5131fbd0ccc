"""`python -m tests.bench`: Holdfast and its peers side by side (make bench)."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

import click
import orjson

from holdfast.cli.statements.options import sigterm_interrupts
from holdfast.errors import HoldfastError
from tests.bench.measure.machine import describe
from tests.bench.report.outcome import Outcome
from tests.bench.report.plots import write_png
from tests.bench.report.report import Report, markdown
from tests.bench.report.screen import Screen
from tests.bench.session import Session, Step, steps
from tests.bench.systems.holdfast import Holdfast
from tests.bench.systems.kafka_streams import KafkaStreams
from tests.bench.systems.peers import Peer
from tests.bench.systems.quix import Quix
from tests.bench.systems.spark import Spark
from tests.bench.workloads import WORKLOADS, Size

_PEERS = ("holdfast", "kafka-streams", "quix", "spark")
FULL = Size(
    records=4_000_000,
    rounds=3,
    latency_s=30.0,
    warm_s=15.0,
    batch=500_000,
    workloads=("a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"),
    peers=_PEERS,
    once=("quix", "spark"),
    once_share=8,
    minutes=30.0,
)
QUICK = replace(
    FULL,
    records=1_600_000,
    rounds=1,
    latency_s=8.0,
    warm_s=3.0,
    workloads=("a", "e"),
    peers=("holdfast", "kafka-streams"),
    once_share=8,
    minutes=2.4,
)


@click.command()
@click.option("--quick", is_flag=True, help="3 minutes: (a) and (e), Holdfast and Kafka Streams.")
@click.option("--workload", help=f"Of {', '.join(WORKLOADS)}; comma-separated.")
@click.option("--peer", help=f"Of {', '.join(_PEERS)}; comma-separated.")
@click.option("--rounds", type=click.IntRange(1), help="Repetitions of (a) to (d) and (h) to (k).")
@click.option("--records", type=click.IntRange(1000), help="Of each input; (i): half.")
@click.option(
    "--minutes",
    type=float,
    help="No run begins after this time, no repetition that would not end in it.",
)
@click.option("--under", default="", help="Command that starts the peers' processes.")
@click.option("--set", "settings", multiple=True, help="A setting of Holdfast, key=value.")
@click.option("--home", type=Path, default=Path(".holdfast/bench"), help="Results and tools.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def main(  # noqa: PLR0917 - a command has a parameter for each of its options
    quick: bool,
    workload: str | None,
    peer: str | None,
    rounds: int | None,
    records: int | None,
    minutes: float | None,
    under: str,
    settings: Sequence[str],
    home: Path,
    as_json: bool,
) -> None:
    """Measure Holdfast and its peers on one broker, and write a table, JSON and a plot."""
    base = QUICK if quick else FULL
    size = replace(
        base,
        rounds=rounds or base.rounds,
        records=records or base.records,
        minutes=minutes or base.minutes,
        under=tuple(shlex.split(under)),
        workloads=_chosen(workload, base.workloads, tuple(WORKLOADS)),
        peers=_chosen(peer, base.peers, _PEERS),
    )
    with sigterm_interrupts():
        report = _bench(home.absolute(), size, settings)
    folder = home / time.strftime("%Y%m%d-%H%M%S")
    folder.mkdir(parents=True)
    results = orjson.dumps(report.as_json(), option=orjson.OPT_INDENT_2)
    (folder / "results.json").write_bytes(results)
    (folder / "report.md").write_text(markdown(report), encoding="utf-8")
    write_png(report, folder / "bench.png")
    click.echo(results.decode() if as_json else markdown(report))
    click.echo(f"{folder}/report.md, results.json, bench.png", err=True)


def _chosen(given: str | None, default: tuple[str, ...], known: Sequence[str]) -> tuple[str, ...]:
    if given is None:
        return default
    names = tuple(name.strip() for name in given.split(","))
    unknown = [name for name in names if name not in known]
    if unknown:
        raise click.UsageError(f"{unknown[0]!r} is unknown; there are: {', '.join(known)}.")
    return names


def _bench(home: Path, size: Size, settings: Sequence[str]) -> Report:
    screen, tools = Screen(), home / "tools"
    machine = describe()
    made = (Holdfast(settings), KafkaStreams(tools), Quix(tools), Spark())
    peers: list[Peer] = [p for p in made if p.name in size.peers]
    ready = [peer for peer in peers if _prepared(peer, screen)]
    began = time.monotonic()
    session = Session(home / "work", size, screen)
    outcomes: list[Outcome] = []
    # Whoever interrupts it gets the report of what has been measured.
    with suppress(KeyboardInterrupt), session.open():
        _run(session, steps(size, ready), size.minutes * 60, screen, outcomes)
    missing = {p.name: (p.title, "left out: could not be prepared") for p in peers}
    notes = missing | {p.name: (p.title, p.notes) for p in ready}
    return Report(machine, asdict(size), notes, outcomes, time.monotonic() - began)


def _prepared(peer: Peer, screen: Screen) -> bool:
    """Is it there?  Benchmarks go on without a peer that this machine cannot run."""
    try:
        peer.prepare(screen.say)
    except HoldfastError as error:
        screen.say(f"without {peer.title}: {error.fact} {error.action}")
        return False
    return True


def _run(
    session: Session,
    todo: Sequence[Step],
    limit_s: float,
    screen: Screen,
    outcomes: list[Outcome],
) -> None:
    """Steps begin only within the limit; a repetition only if it is likely to end in it, too."""
    began = time.monotonic()
    took: dict[tuple[str, str], float] = {}
    for step in todo:
        known = (step.workload.name, step.peer.name)
        start = time.monotonic()
        if start - began + took.get(known, 0.0) > limit_s:
            screen.say(f"left out for time: round {step.round} of {' of '.join(known)}")
            continue
        found = session.run(step)
        took[known] = time.monotonic() - start
        outcomes += found
        for outcome in found:
            screen.say(_line(outcome))


def _line(outcome: Outcome) -> str:
    values = ", ".join(f"{name} {value:,.2f}" for name, value in outcome.values.items())
    return f"  ({outcome.workload}) {outcome.peer}: {outcome.wrong or values}"


if __name__ == "__main__":
    main()
