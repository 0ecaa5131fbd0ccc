"""`holdfast chaos precheck`: checks that a run is possible, and plans it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
import orjson

from holdfast import __version__
from holdfast.cli.chaos.opening import Hit, asked_job, named, remaker_of, target_of
from holdfast.cli.chaos.options import ROUNDS, JobOptions, PlanOptions, job_and_plan_options
from holdfast.cli.chaos.reading import read_servers, refuse_unread
from holdfast.cli.statements.options import Job, json_errors, json_option
from holdfast.errors import Refused
from holdfast.types.components import QUERY, TOPIC

if TYPE_CHECKING:
    from holdfast.chaos.faults.schedule import Asked
    from holdfast.chaos.faults.target import Target
    from holdfast.chaos.faults.words import Fault, Moment
    from holdfast.chaos.history.run_file import RunFile

__all__ = ["command", "plan_run", "schedule_lines"]

_SHOWN = 40


@click.command("precheck")
@job_and_plan_options
@click.option("--dry-run", is_flag=True, help="Write nothing.")
@json_option
def command(job: JobOptions, plan: PlanOptions, dry_run: bool, as_json: bool) -> None:
    """Check that the job NAME can be broken here as requested, and write the plan.

    NAME may also be a table or stream that one deployed job writes. Without SQL_FILE the deployed
    job is used. Prints the seed and the schedule; the same seed and options give the same schedule.
    """
    with json_errors(as_json):
        folder, asked = plan_run(job, plan, dry_run=dry_run)
    if as_json:
        click.echo("\n".join(schedule_lines(asked)), err=True)
        told = {**asdict(asked), "folder": str(folder)}
        click.echo(orjson.dumps(told).decode())
        return
    click.echo("\n".join(schedule_lines(asked)))
    click.echo(f"run {asked.run}: nothing is written" if dry_run else f"run {asked.run}: {folder}")


def plan_run(
    options: JobOptions, plan: PlanOptions, *, own: bool = False, dry_run: bool = False
) -> tuple[Path, RunFile]:
    """Check everything, and write `run.json` unless `dry_run`.

    Raises:
        Refused: the job is not ready, must not be touched, or cannot be broken as requested.
    """
    from holdfast.chaos.faults.rescale_faults import rescaled_of
    from holdfast.chaos.faults.schedule import schedule
    from holdfast.chaos.faults.topic_faults import topics_of
    from holdfast.chaos.history.run_file import RunFile, run_folder, source_commit

    options = named(options)
    job, sql, config, overrides = asked_job(options)
    folder = run_folder(job.settings.home, plan.run)
    # These faults cannot be undone: other people's topics and queries are hit only on request.
    hit = Hit(
        topics_of(job.topology) if own or TOPIC in plan.components else (),
        remaker_of(job, folder, own=own),
        rescaled_of(job.topology) if own or QUERY in plan.components else (),
    )
    target = target_of(options.target, options.namespace, options.name, job.settings, hit)
    _refuse_unconfirmed(options, plan, target)
    _refuse_unready(options.name, target)
    _refuse_load(job, plan)
    servers = read_servers(plan, target, own=own)
    refuse_unread(servers.addresses, job.topology, plan.access)
    asked = RunFile(
        run=plan.run,
        name=options.name,
        target=options.target,
        namespace=options.namespace if options.target == "kubernetes" else "",
        sql=sql,
        config=config,
        overrides=overrides,
        seed=plan.seed,
        schedule=schedule(plan.seed, asked_faults(job, plan, target)),
        duration_s=plan.duration_s,
        rate=plan.rate,
        load=plan.load,
        servers=servers.addresses,
        copies=servers.copies,
        own=own,
        version=__version__,
        commit=source_commit(),
        created_s=round(time.time(), 3),
    )
    if not dry_run:
        asked.write(folder)
    return folder, asked


def schedule_lines(asked: RunFile) -> list[str]:
    """The schedule for people; of a run with a duration only the beginning."""
    lines = [f"seed {asked.seed}, {asked.limits()}, to {asked.name} ({asked.target})"]
    shown = asked.schedule[: _SHOWN if asked.duration_s else None]
    for i in shown:
        several = f"{i.count} x " if i.count > 1 else ""
        lasts = f" for {i.duration_s:.0f} s" if i.fault.lasts else ""
        lines.append(f"{i.number + 1:4}  {i.moment.value:10} {several}{i.component} "
                     f"{i.fault.value}{lasts}")  # fmt: skip
    return lines if len(shown) == len(asked.schedule) else [*lines, "   …"]


def asked_faults(job: Job, plan: PlanOptions, target: Target) -> Asked:
    """The input of the schedule: the plan, and the faults that the target can inject."""
    from holdfast.chaos.faults.schedule import Asked
    from holdfast.chaos.faults.words import Fault, Moment

    possible, aimed = target.faults, target.hook is not None
    components = plan.components or tuple(sorted(possible))
    can = {f for c in components for f in possible.get(c, ())}
    wanted = plan.faults or tuple(Fault)
    notes = {f: how for f, how in target.notes.items() if f in wanted}
    _refuse_impossible(components, plan.faults, possible.keys(), can, notes)
    for fault, how in notes.items():
        click.echo(f"{fault}: {how}", err=True)
    _refuse_unaimed(plan.moments, aimed=aimed)
    moments = plan.moments or tuple(m for m in Moment if aimed or m.step is None)
    timeout_s = job.settings.transaction_timeout_ms / 1000
    return Asked(
        components=components,
        faults=wanted,
        moments=moments,
        possible=possible,
        rounds=_rounds(plan),
        executors=job.settings.placement.executors,
        aimed=aimed,
        lasting_s=timeout_s * 1.2 + 2,
    )


def _rounds(plan: PlanOptions) -> int:
    from holdfast.chaos.faults.schedule import most_in

    if plan.rounds is None:
        return most_in(plan.duration_s) if plan.duration_s else ROUNDS
    return plan.rounds


def _refuse_unconfirmed(options: JobOptions, plan: PlanOptions, target: Target) -> None:
    if plan.confirm == options.name or target.is_dev_namespace():
        return
    raise Refused(
        f"{options.name} is in the namespace {options.namespace}, which is not "
        "labelled as a development namespace.",
        cause="breaking a job there needs an explicit confirmation",
        action=f"add --confirm {options.name} if you do",
    )


def _refuse_unready(name: str, target: Target) -> None:
    status = target.job_status()
    if status is None or not status.get("ready"):
        why = "its driver does not answer" if status is None else str(status.get("reason"))
        raise Refused(
            f"{name} is not ready: {why}.",
            cause="it is not deployed, or is still starting",
            action="deploy it, wait until `holdfast status` says that it is ready",
        )


def _refuse_load(job: Job, plan: PlanOptions) -> None:
    """Refuse a job whose input the workload cannot generate, or whose tables it cannot judge."""
    from holdfast.chaos.load.records import RecordMaker
    from holdfast.chaos.load.workload import input_sources
    from holdfast.judge.recompute.rehearsal import rehearse
    from holdfast.judge.statement.units import units
    from holdfast.judge.statement.user_functions import declare
    from holdfast.judge.values import Untranslatable
    from holdfast.transport.registry import registry_of

    if plan.load.garbage and job.settings.ingest.on_undecodable == "fail":
        raise Refused(
            "The job stops at records that cannot be decoded (deserialization.error=fail).",
            action="leave --garbage out",
        )
    schemas = registry_of(job.settings.registry.client())
    for source in input_sources(job.topology):
        RecordMaker(source, plan.load, schemas)
    for unit in units(job.topology):
        try:
            declare(job.settings.functions)
            rehearse(unit)
        except Untranslatable as unknown:
            raise Refused(
                f"The judge cannot recompute {unit.sink.name}: {unknown}.",
                cause="the judge recomputes tables by itself and does not support this statement",
                action="remove the statement from the job under test",
            ) from unknown


def _refuse_impossible(
    components: Iterable[str],
    faults: Iterable[Fault],
    known: Iterable[str],
    can: set[Fault],
    notes: Mapping[Fault, str],
) -> None:
    known = set(known)
    strange = [c for c in components if c not in known]
    if strange:
        raise Refused(
            f"There is no {', no '.join(strange)} to hit here; there are: "
            f"{', '.join(sorted(known))}.",
            cause="the job has no such part here, or it is not labelled as a target",
            action="leave it out of --components",
        )
    cannot = [f for f in faults if f not in can]
    if cannot:
        raise Refused(
            f"{', '.join(cannot)} cannot be done to {', '.join(components)} here.",
            cause="; ".join(notes[f] for f in cannot if f in notes)
            or "this target cannot inject them there; the page chaos.md has the table of faults "
            "(`holdfast --help` says where it is)",
            action="leave it out of --faults, or ask for other components",
        )


def _refuse_unaimed(moments: Iterable[Moment], *, aimed: bool) -> None:
    wanted = [m.value for m in moments if m.step is not None]
    if wanted and not aimed:
        raise Refused(
            f"Faults cannot be aimed at {', '.join(wanted)} here: no process of the job has the "
            "tests' hook.",
            cause="the hook is part of the tests and never of a job in production",
            action="use the moments random and recovery, or run `make chaos`",
        )
