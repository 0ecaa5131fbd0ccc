"""`holdfast rescale`: changes the number of state partitions of a running query."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click
import orjson

from holdfast.cli.progress import reporter
from holdfast.cli.statements.options import (
    job_options,
    json_errors,
    json_option,
    load_settings,
    named_job,
)
from holdfast.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holdfast.state.layout import Layout
    from holdfast.state.topics.orders import OrderBook

__all__ = ["command"]

_POLL_S = 0.25
_BROKER_S = 30.0


@click.command("rescale")
@click.argument("query")
@click.option(
    "--state-partitions",
    "partitions",
    type=click.IntRange(1, 1024),
    metavar="N",
    help="The number of state partitions from now on.",
)
@click.option(
    "--confirm",
    is_flag=True,
    help="Delete the changelogs of former generations; from then on there is no way back to them.",
)
@click.option(
    "--dry-run", is_flag=True, help="Only say what would change; exit status 0 if it can be asked."
)
@click.option("--application-id", help="The job, if several have a query of that id.")
@click.option(
    "--timeout",
    "wait_s",
    type=click.FloatRange(min=0),
    default=1800.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for the job; it goes on afterwards. 0 does not wait.",
)
@job_options
@json_option
def command(
    query: str,
    partitions: int | None,
    confirm: bool,
    dry_run: bool,
    application_id: str | None,
    wait_s: float,
    config: Path | None,
    overrides: tuple[str, ...],
    home: str | None,
    as_json: bool,
) -> None:
    """Change the number of state partitions of QUERY while its job runs.

    The job copies the query's changelog into one with N partitions, and goes on with it between two
    batches; its input is not read again. The former changelog stays until --confirm.
    """
    from holdfast.cli.deployed.orders import books, id_of, job_of

    if (partitions is None) is not confirm:
        raise click.UsageError("Give either --state-partitions or --confirm.")
    with json_errors(as_json), reporter() as tell:
        settings = load_settings(config, overrides, home)
        job = application_id or named_job(config, overrides)
        client = dict(settings.client())
        name, book = job_of(books(client, _BROKER_S), job, query)
        query_id = id_of(book, query)
        if dry_run:
            told = _plan(client, name, book, query_id, partitions)
            click.echo(orjson.dumps({"ok": True, **told}).decode() if as_json else _sentence(told))
            return
        layout = _ordered(name, book, query_id, partitions or 0, wait_s, tell)
    if as_json:
        told = {"application_id": name, "query": query_id, "done": layout is not None}
        if layout is not None:
            told |= {"generation": layout.generation, "state_partitions": layout.state_partitions}
        click.echo(orjson.dumps({"ok": True, **told}).decode())
    else:
        click.echo(_text(name, query_id, layout, confirmed=confirm))


def _text(name: str, query_id: str, layout: Layout | None, *, confirmed: bool) -> str:
    if layout is None:
        return f"{query_id} of {name} will be rescaled; `holdfast inspect` shows when it is."
    if confirmed:
        return f"{query_id} of {name} has one changelog, of generation {layout.generation}."
    return (
        f"{query_id} of {name} has {layout.state_partitions} state partitions now, in generation "
        f"{layout.generation}.\nThe former changelog stays until `holdfast rescale {query_id} "
        "--confirm`."
    )


def _plan(
    client: dict[str, str], name: str, book: OrderBook, query_id: str, partitions: int | None
) -> dict[str, object]:
    """Tells what a rescale, or its confirmation, would change."""
    from holdfast.state.layout import GENERATION_0
    from holdfast.transport.cluster.admin import Admin
    from holdfast.types.ids import changelog_topic

    layout = book.layouts.get(query_id, GENERATION_0)
    changelog = changelog_topic(name, query_id, layout.generation)
    found = Admin(client).describe(changelog)
    if found is None:
        raise Refused(
            f"{query_id} of {name} has no changelog {changelog}.",
            cause="it keeps no state, or its job has not started yet.",
        )
    return {
        "application_id": name,
        "query": query_id,
        "generation": layout.generation,
        "state_partitions": found.partitions,
        "wanted": partitions,
    }


def _sentence(told: Mapping[str, object]) -> str:
    now = f"{told['query']} of {told['application_id']} has {told['state_partitions']} state"
    if told["wanted"] is None:
        return f"{now} partitions; the changelogs of former generations would be deleted."
    return f"{now} partitions; it would have {told['wanted']}."


def _ordered(
    name: str,
    book: OrderBook,
    query_id: str,
    partitions: int,
    wait_s: float,
    tell: Callable[[str], None],
) -> Layout | None:
    """Sends the order, and waits for it; None: it is not done yet.

    Raises:
        Refused: the job could not do it, or did not in time.
    """
    from holdfast.cli.deployed.orders import is_answered
    from holdfast.state.layout import GENERATION_0
    from holdfast.state.topics.orders import RescaleOrder

    order = RescaleOrder(partitions)
    book.order_rescale(query_id, order)
    tell(f"waiting for {name}")
    deadline = time.monotonic() + wait_s
    while time.monotonic() < deadline:
        book.refresh()
        if is_answered(book.rescales_told.get(query_id), order.token, tell):
            return book.layouts.get(query_id, GENERATION_0)
        time.sleep(_POLL_S)
    if wait_s:
        raise Refused(
            f"{name} has not carried out the order for {query_id} within {wait_s:g} s.",
            cause="the job does not run, or its state is large.",
            action=f"`holdfast status {name}` shows whether it runs; it goes on with the order.",
        )
    return None
