"""`holdfast compaction repair`: puts back settings that a killed apply left."""

from __future__ import annotations

from pathlib import Path

import click
import orjson

from holdfast.cli.compaction.owners import Owners
from holdfast.cli.progress import reporter
from holdfast.cli.statements.options import job_options, json_errors, json_option, load_settings
from holdfast.errors import Refused

__all__ = ["repair_command"]


@click.command("repair")
@click.argument("names", nargs=-1)
@job_options
@json_option
def repair_command(
    names: tuple[str, ...],
    config: Path | None,
    overrides: tuple[str, ...],
    home: str | None,
    as_json: bool,
) -> None:
    """Put back temporary settings of changelogs that a killed apply left.

    NAMES are application ids; by default every job of the cluster is checked. `apply` begins with
    this by itself.
    """
    from holdfast.compaction.apply.apply import Applying, hands_of
    from holdfast.compaction.apply.ledger import Ledger, ledgers
    from holdfast.compaction.apply.put_back import repair

    with json_errors(as_json), reporter() as tell:
        settings = load_settings(config, overrides, home)
        client = settings.client()
        hands = hands_of(Applying(client, Path(settings.home), owners=Owners(), tell=tell))
        done = []
        for job in names or ledgers(client):
            try:
                done += repair(hands, Ledger(client, job))
            except Refused as refused:
                if names:
                    raise
                click.echo(refused.fact, err=True)  # a topic that only has such a name
    if as_json:
        click.echo(orjson.dumps({"ok": True, "repaired": done}).decode())
    else:
        click.echo("\n".join(done) if done else "Nothing was left to put back.")
