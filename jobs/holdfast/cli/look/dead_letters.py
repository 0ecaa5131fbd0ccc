"""`holdfast dead-letters`: shows the records that a job could not decode, and replays them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import orjson

from holdfast.cli.statements.options import job_options, json_errors, json_option, load_settings
from holdfast.errors import Refused
from holdfast.types.ids import dead_letter_topic
from holdfast.types.words import counted, iso_time, nearest, shortened

if TYPE_CHECKING:
    from holdfast.ingest.letters import Overview
    from holdfast.ingest.stored_letters import Counts

__all__ = ["command"]

_READY_S = 30.0
_VALUE_MAX = 60  # characters of a value in the table
_REASON_MAX = 160


@click.command("dead-letters")
@click.argument("job")
@job_options
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=20,
    show_default=True,
    help="Show only the newest so many.",
)
@click.option("--replay", is_flag=True, help="Write the records to their source topics again.")
@click.option(
    "--again", is_flag=True, help="With --replay: also copies of a replay that failed again."
)
@json_option
def command(
    job: str,
    config: Path | None,
    overrides: tuple[str, ...],
    home: str | None,
    limit: int,
    replay: bool,
    again: bool,
    as_json: bool,
) -> None:
    """Show the records that JOB (its application.id) could not decode.

    --replay is for after the fix: it writes each original record, with its time but without its
    headers, to its source topic again, once, however often it is run. Every reader of the topic
    gets it again: a query that could decode it before counts it twice.
    """
    if again and not replay:
        raise click.UsageError("--again goes with --replay.")
    with json_errors(as_json):
        settings = load_settings(config, (*overrides, f"application.id={job}"), home)

        from holdfast.ingest.letters import Letters
        from holdfast.runtime.topics import dead_letters
        from holdfast.transport.cluster.admin import Admin

        admin, topic = Admin(settings.client()), dead_letters(settings)
        admin.wait_ready(_READY_S)
        if admin.describe(topic) is None:
            raise _without_topic(job, topic, admin.names())
        letters = Letters(settings.client(), topic, job)
        replayed = letters.replay(limit, again=again) if replay else None
        found = replayed.before if replayed else letters.overview(limit)
    written = replayed.written if replayed else None
    if as_json:
        click.echo(orjson.dumps(_document(found, written)).decode())
    elif written is None:
        _show(found)
    else:
        click.echo(_outcome(found.counts, written, again=again))


def _without_topic(job: str, topic: str, topics: Sequence[str]) -> Refused:
    """The error of a job whose dead-letter topic is not there: it has never run."""
    suffix = dead_letter_topic("")
    jobs = [name.removesuffix(suffix) for name in topics if name.endswith(suffix)]
    near = nearest(job, jobs)
    known = f"jobs with one are: {', '.join(jobs)}" if jobs else "no job has one here"
    return Refused(
        f"The job {job} has no dead letters: there is no topic {topic}.",
        cause="it has never run on this cluster, stops at such records "
        "(deserialization.error=fail), or has another application.id or dead.letter.topic.",
        action=(f"did you mean {near}? " if near else "") + known,
    )


def _document(found: Overview, written: int | None) -> dict[str, Any]:
    letters = [
        {
            "written_ms": letter.written_ms,
            "reason": letter.reason,
            "query": letter.query,
            "topic": letter.topic,
            "partition": letter.partition,
            "offset": letter.offset,
            "timestamp_ms": letter.timestamp_ms,
            "key": _text(letter.key),
            "value": _text(letter.value),
            "cut": letter.cut,
            "replayed": fate == "done",
        }
        for letter, fate in found.newest
    ]
    counts = asdict(found.counts)
    counts["replayed_before"] = counts.pop("done")
    told: dict[str, Any] = {"ok": True, **counts, "letters": letters}
    return told if written is None else told | {"written": written}


def _show(found: Overview) -> None:
    """The newest letters as a table, and how many there are in all."""
    from holdfast.cli.look.view import console
    from holdfast.cli.shell.show import grid

    if not found.total:
        click.echo("There are no dead letters.")
        return
    table = grid("when", "reason", "topic", "partition", "offset", "value", "replayed")
    for letter, fate in found.newest:
        table.add_row(
            iso_time(letter.written_ms, "seconds"),
            _shown(letter.reason, _REASON_MAX),
            letter.topic,
            str(letter.partition),
            str(letter.offset),
            _shown(_text(letter.value) or "null", _VALUE_MAX),
            "yes" if fate == "done" else "",
        )
    console().print(table, markup=False, highlight=False)
    if len(found.newest) < found.total:
        click.echo(f"the newest {len(found.newest):,} (--limit shows more)")
    told = f"{counted(found.total, 'dead letter')}{_rest(found.counts)}"
    click.echo(f"{told}; to be replayed: {found.counts.due:,}")


def _outcome(counts: Counts, written: int, *, again: bool) -> str:
    told = f"Written to their source topics again: {counted(written, 'record')}{_rest(counts)}."
    if counts.failed_again and not again:
        told += " --again replays those that failed again."
    return told


def _rest(counts: Counts) -> str:
    """The letters that are not due."""
    kinds = {
        "replayed before": counts.done,
        "failed again after a replay": counts.failed_again,
        "cut, so that the record is only in its topic": counts.cut,
    }
    told = [f"{words}: {number:,}" for words, number in kinds.items() if number]
    return f" ({', '.join(told)})" if told else ""


def _text(data: bytes | None) -> str | None:
    """Bytes as text; 0x and hexadecimal digits if they are none."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return f"0x{data.hex()}"


def _shown(text: str, longest: int) -> str:
    """The text, shortened, without what moves a terminal's cursor."""
    begin = text[: longest + 1]  # one more, so that it is known to be shortened
    return shortened("".join(map(_visible, begin)), longest)


def _visible(c: str) -> str:
    return c if c.isprintable() else f"\\x{ord(c):02x}"
