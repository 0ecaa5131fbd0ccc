"""`holdfast savepoint create`: orders a savepoint of a running job, and waits for it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click
import orjson

from holdfast.cli.progress import reporter
from holdfast.cli.savepoint.place import place_of
from holdfast.cli.statements.options import job_options, json_errors, json_option, load_settings
from holdfast.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["command"]

_POLL_S = 0.25
_BROKER_S = 30.0


@click.command("create")
@click.argument("job")
@click.argument("name")
@click.option(
    "--timeout",
    "wait_s",
    type=click.FloatRange(min=1),
    default=300.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for the job; afterwards it does not begin any more.",
)
@job_options
@json_option
def command(
    job: str,
    name: str,
    wait_s: float,
    config: Path | None,
    overrides: tuple[str, ...],
    home: str | None,
    as_json: bool,
) -> None:
    """Make the savepoint NAME of the running job JOB.

    The job freezes all its tables between two batches, goes on, and uploads copies of their stores
    meanwhile. JOB is its application.id.
    """
    from holdfast.cli.look.view import console
    from holdfast.cli.savepoint.view import as_json as told_of
    from holdfast.cli.savepoint.view import shown

    with json_errors(as_json), reporter() as tell:
        settings = load_settings(config, overrides, home, application_id=job)
        place = place_of(job, settings)
        if place.has(name):
            raise Refused(
                f"{job} has a savepoint {name} already.",
                action=f"take another name, or `holdfast savepoint delete {job} {name}`.",
            )
        _ordered(dict(settings.client()), job, name, wait_s, tell)
        found = place.read(name)
    if as_json:
        click.echo(orjson.dumps({"ok": True, **told_of(found)}).decode())
    else:
        console().print(shown(found))


def _ordered(
    client: dict[str, str], job: str, name: str, wait_s: float, tell: Callable[[str], None]
) -> None:
    """Sends the order to the job, and waits until it is carried out.

    Raises:
        Refused: there is no such job, it could not do it, or did not in time.
    """
    from holdfast.cli.deployed.orders import books, is_answered, job_of
    from holdfast.state.topics.orders import SavepointOrder

    _, book = job_of(books(client, _BROKER_S), job, None)
    order = SavepointOrder.within(wait_s)
    book.order_savepoint(name, order)
    tell(f"waiting for {job}")
    deadline = time.monotonic() + wait_s
    while time.monotonic() < deadline:
        book.refresh()
        if is_answered(book.savepoints_told.get(name), order.token, tell):
            return
        time.sleep(_POLL_S)
    raise Refused(
        f"{job} did not make the savepoint {name} within {wait_s:g} s.",
        cause="the job does not run, or its stores are large for the way to snapshot.uri.",
        action=f"`holdfast status {job}` shows whether it runs; --timeout waits longer.",
    )
