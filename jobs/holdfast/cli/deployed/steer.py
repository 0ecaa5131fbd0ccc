"""Shared by `holdfast pause`, `resume` and `terminate`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click
import orjson

from holdfast.cli.statements.options import (
    job_options,
    json_option,
    load_settings,
    named_job,
)

if TYPE_CHECKING:
    from holdfast.cli.deployed.orders import Outcome

__all__ = ["Asked", "as_text", "steer", "steer_options"]

_R = TypeVar("_R")
_TIMEOUT_S = 30.0
_NOT_YET = 3  # the order was sent, but the driver has not obeyed yet


@dataclass(frozen=True)
class Asked:
    """The query (None: all) and its job (None: the only one that has the query)."""

    query: str | None
    application_id: str | None
    client: dict[str, str] = field(repr=False)
    wait_s: float
    as_json: bool


def steer_options(function: Callable[..., _R]) -> Callable[..., _R]:
    """Adds QUERY, --all, --application-id, --timeout, --json and a job's options, as `asked`."""

    @click.argument("query", required=False)
    @click.option("--all", "everything", is_flag=True, help="All queries of the job.")
    @click.option("--application-id", help="The job, if several have a query of that id.")
    @click.option(
        "--timeout",
        "wait_s",
        type=click.FloatRange(min=0),
        default=60.0,
        show_default=True,
        help="Seconds to wait for the job to obey; 0 does not wait.",
    )
    @job_options
    @json_option
    @functools.wraps(function)
    def command(
        *args: object,
        query: str | None,
        everything: bool,
        application_id: str | None,
        wait_s: float,
        config: Path | None,
        overrides: tuple[str, ...],
        home: str | None,
        as_json: bool,
        **kwargs: object,
    ) -> _R:
        if (query is None) is not everything:
            raise click.UsageError("Give either QUERY or --all.")
        settings = load_settings(config, overrides, home)
        job = application_id or named_job(config, overrides)
        asked = Asked(query, job, dict(settings.client()), wait_s, as_json)
        return function(*args, asked=asked, **kwargs)

    return command


def steer(asked: Asked, verb: str, *, restore: bool = False) -> int:
    """Send the order and print its outcome; returns the exit status."""
    from holdfast.cli.deployed.orders import books, give_orders, job_of

    found = books(asked.client, _TIMEOUT_S)
    name, book = job_of(found, asked.application_id, asked.query)
    outcome = give_orders(book, verb, asked.query, restore=restore, wait_s=asked.wait_s)
    click.echo(_as_json(name, outcome) if asked.as_json else as_text(name, outcome))
    return _NOT_YET if outcome.waiting and asked.wait_s else 0


def as_text(name: str, outcome: Outcome) -> str:
    """The outcome of orders to the queries of the job `name`, a line each."""
    lines = [f"{query_id} of {name} is {told.state}." for query_id, told in outcome.obeyed.items()]
    lines += [
        f"{query_id} of {name} has not obeyed the order yet: "
        "it will after its current batch, or when its driver starts."
        for query_id in outcome.waiting
    ]
    return "\n".join(lines) or f"The order applies to no query of {name}."


def _as_json(name: str, outcome: Outcome) -> str:
    states = {query_id: told.state for query_id, told in outcome.obeyed.items()}
    told = {"application_id": name, "queries": states, "waiting": outcome.waiting}
    return orjson.dumps(told).decode()
