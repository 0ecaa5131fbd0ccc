"""`holdfast produce`: writes example data, or a file of JSON lines, into a topic."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
import orjson

from holdfast.cli.progress import record_bar
from holdfast.cli.samples import SAMPLES, Event
from holdfast.cli.statements.options import Job, job_options, load_job, load_settings
from holdfast.errors import Refused

if TYPE_CHECKING:
    from holdfast.cli.cluster.encoded import Encoded
    from holdfast.config.settings import Settings

__all__ = ["command"]

_BROKER_WAIT_S = 10.0
_CHUNK = 1_000  # records between updates of the clock and the bar


@dataclass(frozen=True)
class _Load:
    """The records to produce and their topic; `count` is None if it is unknown."""

    label: str
    topic: str
    partitions: int
    count: int | None
    events: Iterable[Event | Encoded]


@click.command("produce")
@click.argument("what", metavar="flights|movies|sensors|payments|FILE.ndjson")
@click.option("--topic", help="Topic to write; a FILE needs it, example data have their own.")
@click.option("--key", "key_field", help="Field of a FILE's objects that becomes the key.")
@click.option(
    "--source",
    "source_name",
    metavar="NAME",
    help="Stream or table whose columns the objects hold: they are written in its formats, into "
    "its topic; its schemas are registered.",
)
@click.option(
    "--statements",
    metavar="SQL_FILE",
    type=click.Path(path_type=Path),
    help="File of statements that declares --source.",
)
@click.option("--rate", type=click.IntRange(min=1), help="Records per second, at most.")
@click.option("--limit", type=click.IntRange(min=0), help="Stop after so many records.")
@click.option(
    "--partitions",
    type=click.IntRange(min=1),
    help="Partitions of the topic, if it must be created.",
)
@job_options
def command(
    what: str,
    topic: str | None,
    key_field: str | None,
    source_name: str | None,
    statements: Path | None,
    rate: int | None,
    limit: int | None,
    partitions: int | None,
    config: Path | None,
    overrides: Sequence[str],
    home: str | None,
) -> None:
    """Write example data, or the lines of FILE, into a topic.

    Creates the topic if it is missing.

    A name of example data wins over a file of the same name (write ./flights for that).
    FILE holds one JSON object per line; `-` reads standard input.
    """
    if source_name is not None or statements is not None:
        if source_name is None or statements is None or topic or key_field:
            raise click.UsageError(
                "--source and --statements go together, without --topic and --key."
            )
        job = load_job(statements, config, overrides, home)
        settings, load = job.settings, _of_source(what, source_name, job)
    else:
        settings = load_settings(config, overrides, home)
        load = _example(what) if what in SAMPLES else _lines_of(what, topic, key_field)
    load = _Load(
        load.label,
        topic or load.topic,
        partitions or load.partitions,
        load.count if limit is None else min(load.count or limit, limit),
        itertools.islice(load.events, limit),
    )
    began = time.monotonic()
    count = _send(load, settings, rate)
    seconds = time.monotonic() - began
    speed = f" ({count / seconds:,.0f} records/s)" if seconds > 0 else ""
    click.echo(f"{count:,} records to topic {load.topic} in {seconds:.1f} s{speed}")


def _of_source(what: str, name: str, job: Job) -> _Load:
    """The same objects as records of a stream or table."""
    from holdfast.cli.cluster.encoded import declared_source, encoded
    from holdfast.transport.registry import registry_of

    schemas = registry_of(job.settings.registry.client())
    source = declared_source(job.topology, name, schemas)
    load = _example(what) if what in SAMPLES else _lines_of(what, source.topic, None)
    return replace(
        load,
        topic=source.topic,
        partitions=source.partitions or load.partitions,
        events=encoded((e.value for e in load.events), source, load.label),
    )


def _example(name: str) -> _Load:
    sample = SAMPLES[name]
    return _Load(name, sample.topic, sample.partitions, sample.count, sample.events())


def _lines_of(path: str, topic: str | None, key_field: str | None) -> _Load:
    if topic is None:
        raise click.UsageError(f"--topic is needed to produce a file ({path}).")
    if path != "-" and not Path(path).is_file():
        raise Refused(
            f"There is no file {path}, and no example data of that name.",
            action=f"give a file of JSON lines, or one of: {', '.join(SAMPLES)}.",
        )
    return _Load(Path(path).name, topic, 4, None, _read(path, key_field))


def _read(path: str, key_field: str | None) -> Iterator[Event]:
    with click.open_file(path, "rb") as file:
        for number, raw in enumerate(file, start=1):
            line = raw.strip()
            if line:
                yield Event(_key(line, key_field, f"{path}, line {number}"), line)


def _key(line: bytes, key_field: str | None, where: str) -> bytes | None:
    """The key of one line; without a key field even malformed lines are sent as they are."""
    if key_field is None:
        return None
    try:
        value = orjson.loads(line)[key_field]
    except (orjson.JSONDecodeError, KeyError, TypeError, IndexError) as error:
        raise Refused(
            f"{where} has no field {key_field!r}: {line[:80].decode(errors='replace')}",
            cause="it is not a JSON object, or the field has another name.",
            action="correct the line, or leave --key out.",
        ) from error
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else orjson.dumps(value)


def _send(load: _Load, settings: Settings, rate: int | None) -> int:
    """Create the topic, send everything, wait for every delivery; returns the count."""
    from holdfast.transport.cluster.admin import Admin
    from holdfast.transport.idempotent_producer import Producer

    client = settings.client()
    admin = Admin(client)
    admin.wait_ready(_BROKER_WAIT_S)
    admin.ensure_topic(load.topic, load.partitions, settings.state.changelog_replicas, {})
    producer = Producer(client)
    try:
        with record_bar(load.label, load.count) as advance:
            count = _send_all(producer.send, load, rate, advance)
        producer.flush()
    finally:
        producer.close()
    return count


def _send_all(
    send: Callable[[str, bytes | None, bytes | None], None],
    load: _Load,
    rate: int | None,
    advance: Callable[[int], None],
) -> int:
    began = time.monotonic()
    events = iter(load.events)
    size = min(_CHUNK, max(1, rate // 10)) if rate else _CHUNK
    count = 0
    while chunk := list(itertools.islice(events, size)):
        for event in chunk:
            send(load.topic, event.key, event.value)
        count += len(chunk)
        advance(len(chunk))
        if rate:
            time.sleep(max(0.0, began + count / rate - time.monotonic()))
    return count
