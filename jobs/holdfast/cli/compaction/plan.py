"""`holdfast compaction plan`: proposes changes with their gains and risks."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import orjson

from holdfast.cli.look.view import console
from holdfast.cli.statements.options import home_option, json_errors, json_option, load_settings
from holdfast.compaction.plan.policy import HEADER, parse_policy, policy_rows
from holdfast.compaction.runs import PLAN, SURVEY, newest_run, run_folder, write_file
from holdfast.config.load import from_overrides, from_yaml

if TYPE_CHECKING:
    from holdfast.compaction.plan.plan import Plan
    from holdfast.compaction.plan.policy import Policy

__all__ = ["plan_command"]

_HELP = "help"
_PIPE_WIDTH = 160  # a pipe has no width


@click.command("plan")
@click.option("--run", help="The run whose survey to plan from.  [default: the newest]")
@click.option(
    "--policy",
    "keys",
    multiple=True,
    metavar="KEY=VALUE",
    help="A key of the policy; may be repeated. `--policy help` lists them.",
)
@click.option(
    "--policy-file", type=click.Path(path_type=Path), help="YAML file of a policy's keys."
)
@click.option("--markdown", is_flag=True, help="As Markdown; with --json beside the plan.")
@home_option
@json_option
def plan_command(
    run: str | None,
    keys: tuple[str, ...],
    policy_file: Path | None,
    markdown: bool,
    home: str | None,
    as_json: bool,
) -> None:
    """Plan the compaction of surveyed changelogs; nothing is changed.

    Without a target (--policy target.restore.s=60, --policy disk.budget.bytes=…) only clearly
    worthwhile changes are planned. --policy overrides --policy-file. A plan may be empty. The same
    survey and policy give the same plan, and the same hash.
    """
    if _HELP in keys:
        _show_keys()
        return
    from holdfast.compaction.plan.planner import make_plan
    from holdfast.compaction.survey.facts import Survey

    with json_errors(as_json):
        policy = _policy(keys, policy_file)
        base = load_settings(None, (), home).home
        folder = run_folder(base, run or newest_run(base))
        plan = make_plan(Survey.read(folder / SURVEY), policy)
        write_file(folder / PLAN, plan.to_json())
    _show(plan, folder / PLAN, markdown=markdown, as_json=as_json)


def _policy(keys: tuple[str, ...], file: Path | None) -> Policy:
    given = dict(from_yaml(file).values) if file is not None else {}
    overrides = from_overrides(keys, "--policy target.restore.s=60").values
    return parse_policy({**given, **overrides})


def _show(plan: Plan, path: Path, *, markdown: bool, as_json: bool) -> None:
    from holdfast.compaction.plan.view import as_markdown, plan_view

    if as_json:
        document = orjson.loads(plan.to_json())
        if markdown:
            document["markdown"] = as_markdown(plan)
        click.echo(orjson.dumps(document).decode())
    elif markdown:
        click.echo(as_markdown(plan), nl=False)
    else:
        console().print(plan_view(plan))
        click.echo(str(path))


def _show_keys() -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(*HEADER, box=None, pad_edge=False, header_style="bold")
    table.columns[0].no_wrap = True
    for row in policy_rows():
        table.add_row(*row)
    Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH).print(table)
