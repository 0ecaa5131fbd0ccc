"""`holdfast test`: runs statements over input records, and compares the results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console

from holdfast.cli.progress import record_bar
from holdfast.errors import InvalidTestCase

__all__ = ["command"]

_FILE = click.Path(path_type=Path)


@click.command("test")
@click.argument("paths", nargs=-1, type=_FILE)
@click.option("-s", "--sql-file", type=_FILE, help="Statements.")
@click.option("-i", "--input-file", type=_FILE, help='{"inputs": [records]}, piped in this order.')
@click.option("-o", "--output-file", type=_FILE, help='The expected {"outputs": [records]}.')
@click.option("-k", "text", default="", help="Only cases with TEXT in their name or file.")
@click.option("-x", "--exitfirst", is_flag=True, help="Stop at the first case that does not pass.")
@click.option(
    "--emit",
    type=click.Choice(["record", "batch"]),
    default="record",
    show_default=True,
    help="Emit every record's change, as ksqlDB without its cache, or the last one of each key.",
)
@click.option(
    "--batch-records",
    type=click.IntRange(min=1),
    help="Records that a query processes per batch; by default all of a case.",
)
@click.option(
    "--broker",
    metavar="BOOTSTRAP",
    help="Run each case as a job on this broker, in temporary topics.",
)
@click.option("--junit", "junit_file", type=_FILE, help="Write the results as JUnit XML.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def command(
    paths: Sequence[Path],
    sql_file: Path | None,
    input_file: Path | None,
    output_file: Path | None,
    text: str,
    exitfirst: bool,
    emit: str,
    batch_records: int | None,
    broker: str | None,
    junit_file: Path | None,
    as_json: bool,
) -> int:
    """Run test cases of PATHS, or of the three files of ksqlDB's test runner.

    A path is a file {"tests": [...]}, or a folder of such files and of folders with
    statements.sql, input.json and output.json.  Neither Kafka nor topics are needed.
    Exits with 0 if every case passed, else with 1.
    """
    from holdfast.testing.files import cases_at, triple
    from holdfast.testing.report import as_json as to_json
    from holdfast.testing.report import junit, show, totals
    from holdfast.testing.run import Outcome, Result, Runner
    from holdfast.types.statements.topology import Emit

    _check(paths, sql_file, output_file)
    if sql_file is not None and output_file is not None:
        cases = [triple(sql_file, input_file, output_file)]
    else:
        cases = [case for path in paths for case in cases_at(path)]
    cases = [c for c in cases if text.lower() in f"{c.origin} {c.name}".lower()]
    if not cases:
        raise InvalidTestCase(f"No case has {text!r} in its name or its file's.")
    console, results = Console(stderr=as_json), list[Result]()
    runner = Runner(Emit(emit), batch_records=batch_records, broker=broker)
    with record_bar("cases", len(cases)) as done:
        for result in runner.run(cases):
            results.append(result)
            done(1)
            bad = result.outcome in (Outcome.FAILED, Outcome.ERROR)
            if bad and not as_json:
                show(result, console)
            if bad and exitfirst:
                break
    if junit_file is not None:
        junit(results, junit_file)
    if as_json:
        click.echo(to_json(results))
    else:
        console.print(_line(totals(results)))
    return 1 if any(r.outcome in (Outcome.FAILED, Outcome.ERROR) for r in results) else 0


def _check(paths: Sequence[Path], sql_file: Path | None, output_file: Path | None) -> None:
    if bool(paths) == (sql_file is not None or output_file is not None):
        raise click.UsageError("Give PATHS, or --sql-file with --output-file.")
    if (sql_file is None) != (output_file is None):
        raise click.UsageError("--sql-file and --output-file belong together.")


def _line(totals: dict[str, int]) -> str:
    """One line: how many passed, failed, broke and were skipped."""
    return (
        f"{totals['passed']} passed, {totals['failed']} failed, {totals['error']} errors, "
        f"{totals['skipped']} skipped"
    )
