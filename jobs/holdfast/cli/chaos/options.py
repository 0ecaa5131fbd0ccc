"""The options of a new run, and those that name an existing run."""

from __future__ import annotations

import functools
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from holdfast.chaos.faults.words import Fault, Moment
from holdfast.chaos.load.records import LoadShape
from holdfast.cli.chaos.reading import NOBODY, access_options
from holdfast.cli.deployed.targets import namespace_option, target_option
from holdfast.cli.statements.options import Sql, home_option

if TYPE_CHECKING:
    from holdfast.chaos.reads.sessions import Access

__all__ = ["ROUNDS", "JobOptions", "PlanOptions", "job_and_plan_options", "run_options"]

ROUNDS = 10
"""Default number of faults, if neither a number nor a duration is given."""

_UNITS_S = {"s": 1, "m": 60, "h": 3600}
_DURATION_MAX_S = 6 * 3600  # the workload and the DAG's tasks end soon after it

_R = TypeVar("_R")
_F = TypeVar("_F", bound=Callable[..., object])


@dataclass(frozen=True)
class JobOptions:
    """The job of a run; `sql` None: the deployed statements."""

    name: str
    sql: Sql | None
    target: str
    namespace: str
    config: Path | None
    overrides: tuple[str, ...]
    home: str | None


@dataclass(frozen=True)
class PlanOptions:
    """The plan of a run; an empty tuple means everything possible, 0 s no limit."""

    run: str
    seed: int
    components: tuple[str, ...]
    faults: tuple[Fault, ...]
    moments: tuple[Moment, ...]
    rounds: int | None
    duration_s: float
    rate: int
    load: LoadShape
    servers: int
    ask: tuple[str, ...]
    access: Access
    confirm: str


def run_options(function: _F) -> _F:
    """Adds --run and --home to a command about an existing run."""
    run = click.option("--run", required=True, metavar="RUN", help="Name of the run.")
    return run(home_option(function))


def job_and_plan_options(function: Callable[..., _R]) -> Callable[..., _R]:
    """Adds all options of a new run, as `job` and `plan`."""

    @functools.wraps(function)
    def command(**given: Any) -> _R:
        job, plan = _job(given), _plan(given)
        return function(job=job, plan=plan, **given)

    for option in reversed(_options()):
        command = option(command)
    return namespace_option(target_option(home_option(access_options(command))))


def _options() -> list[Callable[[Any], Any]]:
    return [
        click.argument("name"),
        click.argument("sql_file", required=False, type=click.Path(path_type=Path)),
        click.option("--sql", "sql_text", metavar="TEXT", help="The statements, instead."),
        click.option("--config", type=click.Path(path_type=Path), help="YAML file of properties."),
        click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="A property."),
        click.option("--run", metavar="RUN", help="Name of the run.  [default: the time]"),
        click.option("--seed", type=click.IntRange(min=0), help="[default: a random one]"),
        click.option("--components", metavar="A,B", help="driver, executor, broker, topic …"),
        click.option("--faults", metavar="A,B", help=f"Of: {', '.join(Fault)}."),
        click.option("--moments", metavar="A,B", help=f"Of: {', '.join(Moment)}."),
        click.option(
            "--rounds", type=click.IntRange(min=1), metavar="N",
            help=f"Faults.  [default: {ROUNDS}, or as many as there is time for]",
        ),
        click.option(
            "--duration", callback=_seconds, metavar="TIME",
            help="No new fault after so long, however many are left: 90s, 10m, 6h at most.",
        ),
        click.option(
            "--rate", type=click.IntRange(min=1), default=200, show_default=True,
            help="Records per second, over all input topics.",
        ),
        click.option("--keys", type=click.IntRange(min=1), default=200, show_default=True),
        click.option(
            "--distribution", type=click.Choice(["uniform", "zipf"]), default="uniform",
            show_default=True, help="Of the keys.",
        ),
        _share("--out-of-order", 0.2, "with an event time some seconds old"),
        _share("--late", 0.0, "with an event time two days old"),
        _share("--tombstones", 0.0, "without a value"),
        _share("--garbage", 0.0, "that cannot be decoded"),
        click.option(
            "--servers", type=click.IntRange(min=0), default=0, show_default=True,
            help="Query servers to start with --own; the run reads from them all the time.",
        ),
        click.option(
            "--ask", metavar="URL,URL",
            help=f"Query servers of NAME to read from; {NOBODY}: no reads.  [default: those beside "
            "it; on Kubernetes when this runs in a pod]",
        ),
        click.option(
            "--confirm", default="", metavar="NAME",
            help="The job's name once more, outside of a namespace for development.",
        ),
    ]  # fmt: skip


def _seconds(_ctx: click.Context, _option: click.Parameter, text: str | None) -> float:
    if not text:
        return 0.0
    found = re.fullmatch("([1-9][0-9]*)([smh])", text.strip())
    seconds = int(found[1]) * _UNITS_S[found[2]] if found else 0
    if not 0 < seconds <= _DURATION_MAX_S:
        raise click.BadParameter(f"{text!r} is no time from 1s to 6h, such as 90s, 10m, 2h.")
    return float(seconds)


def _share(name: str, default: float, what: str) -> Callable[[Any], Any]:
    return click.option(
        name,
        type=click.FloatRange(0, 1),
        default=default,
        show_default=True,
        metavar="SHARE",
        help=f"Share of records {what}.",
    )


def _job(given: dict[str, Any]) -> JobOptions:
    file, text = given.pop("sql_file"), given.pop("sql_text")
    if file is not None and text is not None:
        raise click.UsageError("Give either SQL_FILE or --sql TEXT.")
    sql = Sql(file, text or "") if file is not None or text is not None else None
    names = ("name", "target", "namespace", "config", "overrides", "home")
    return JobOptions(sql=sql, **{name: given.pop(name) for name in names})


def _plan(given: dict[str, Any]) -> PlanOptions:
    load = LoadShape(
        keys=given.pop("keys"),
        distribution=given.pop("distribution"),
        out_of_order=given.pop("out_of_order"),
        late=given.pop("late"),
        tombstones=given.pop("tombstones"),
        garbage=given.pop("garbage"),
    )
    seed = given.pop("seed")
    return PlanOptions(
        run=given.pop("run") or time.strftime("%Y%m%d-%H%M%S"),
        seed=secrets.randbelow(1 << 31) if seed is None else seed,
        components=_words(given.pop("components")),
        faults=tuple(_word(Fault, w) for w in _words(given.pop("faults"))),
        moments=tuple(_word(Moment, w) for w in _words(given.pop("moments"))),
        rounds=given.pop("rounds"),
        duration_s=given.pop("duration"),
        rate=given.pop("rate"),
        load=load,
        servers=given.pop("servers"),
        ask=_words(given.pop("ask")),
        access=given.pop("access"),
        confirm=given.pop("confirm"),
    )


def _words(text: str | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(w.strip() for w in (text or "").split(",") if w.strip()))


_E = TypeVar("_E", Fault, Moment)


def _word(kind: type[_E], text: str) -> _E:
    try:
        return kind(text)
    except ValueError:
        told = f"{text!r} is no {kind.__name__.lower()}; there are: {', '.join(kind)}."
        raise click.UsageError(told) from None
