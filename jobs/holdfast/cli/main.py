"""`holdfast`: the command line.

Each command is a file of this folder that exposes a click command or group named `command`;
`_COMMANDS` names the file.  A command is imported when it is used, so that its `--help` does not
wait for the libraries of other commands.  Errors of the engine are printed as fact, cause and
action and end with status 2 (a person has to decide) or 1; Ctrl-C ends with status 130.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from holdfast import __version__
from holdfast.cli.groups import LazyGroup
from holdfast.config.logs import LogFormat, configure_logging
from holdfast.errors import HoldfastError, PreconditionsChanged, Refused

__all__ = ["cli", "main"]

# In the order in which a newcomer needs them.
_COMMANDS = {
    "demo": "holdfast.cli.demo",
    "kafka": "holdfast.cli.cluster.kafka",
    "registry": "holdfast.cli.cluster.registry",
    "produce": "holdfast.cli.cluster.produce",
    "run": "holdfast.cli.statements.run",
    "serve": "holdfast.cli.servers.serve",
    "query": "holdfast.cli.servers.query",
    "token": "holdfast.cli.servers.token",
    "explain": "holdfast.cli.statements.explain",
    "functions": "holdfast.cli.statements.functions",
    "sql": "holdfast.cli.statements.sql",
    "test": "holdfast.cli.statements.test",
    "pause": "holdfast.cli.deployed.pause",
    "resume": "holdfast.cli.deployed.resume",
    "terminate": "holdfast.cli.deployed.terminate",
    "inspect": "holdfast.cli.look.inspect",
    "verify": "holdfast.cli.look.verify",
    "stores": "holdfast.cli.look.stores",
    "chaos": "holdfast.cli.chaos",
    "compaction": "holdfast.cli.compaction",
    "savepoint": "holdfast.cli.savepoint",
    "rescale": "holdfast.cli.deployed.rescale",
    "check": "holdfast.cli.statements.check",
    "topics": "holdfast.cli.statements.topics",
    "dead-letters": "holdfast.cli.look.dead_letters",
    "sinks": "holdfast.cli.look.sinks",
    "acls": "holdfast.cli.cluster.acls",
    "deploy": "holdfast.cli.deployed.deploy",
    "status": "holdfast.cli.deployed.status",
    "smoke": "holdfast.cli.deployed.smoke",
    "rollback": "holdfast.cli.deployed.rollback",
    "undeploy": "holdfast.cli.deployed.undeploy",
    "selftest": "holdfast.cli.cluster.selftest",
    "config": "holdfast.cli.statements.config",
    "version": "holdfast.cli.version",
}
_INTERRUPTED = 130  # 128 + SIGINT, as shells have it
_CHANGED = 4  # the approved plan no longer fits: a program may survey and plan again
_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")


class _Commands(LazyGroup):
    """All commands."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Name the pages of documentation, and their folder."""
        from holdfast.cli.docs import PAGES, SOURCE, folder

        with formatter.section(f"Pages in {folder() or SOURCE}"):
            formatter.write_dl(list(PAGES.items()))


@click.group(
    cls=_Commands,
    modules={name: f"{module}:command" for name, module in _COMMANDS.items()},
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="holdfast")
@click.option("--debug", is_flag=True, envvar="HOLDFAST_CLI_DEBUG", help="Show tracebacks.")
@click.option(
    "--log-format",
    type=click.Choice([f.value for f in LogFormat]),
    default=LogFormat.TEXT.value,
    envvar="HOLDFAST_CLI_LOG_FORMAT",
    show_default=True,
    help="Readable lines, or one JSON object per line.",
)
@click.option(
    "--log-level",
    type=click.Choice(_LEVELS, case_sensitive=False),
    default="INFO",
    envvar="HOLDFAST_CLI_LOG_LEVEL",
    show_default=True,
)
@click.pass_context
def cli(ctx: click.Context, debug: bool, log_format: str, log_level: str) -> None:
    """State tables on Spark that hold fast while pods do not."""
    ctx.obj["debug"] = debug
    configure_logging(LogFormat(log_format), level=log_level.upper())


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    shared: dict[str, Any] = {"debug": False}
    arguments = None if argv is None else list(argv)
    try:
        result = cli.main(arguments, prog_name="holdfast", standalone_mode=False, obj=shared)
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.ClickException as wrong:
        wrong.show()
        return wrong.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("Stopped.", err=True)
        return _INTERRUPTED
    except BrokenPipeError:
        # The reader (`| head`) has closed the pipe; Python must not complain about it at exit,
        # either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (HoldfastError, OSError) as error:
        told = _told(error)
        if shared["debug"] or told is None:
            raise
        return _show(told)
    return result if isinstance(result, int) else 0


def _told(error: HoldfastError | OSError) -> HoldfastError | None:
    """The error for a person; None: it is a fault of this program."""
    if isinstance(error, HoldfastError):
        return error
    if error.filename is None:
        return None
    return Refused(
        f"{error.filename} cannot be used: {error.strerror}.",
        cause="this user may not write there, the file system is read-only, or it is full.",
        action="give a place that this user may write, with space; --home names the folder of all "
        "local files.",
    )


def _show(error: HoldfastError) -> int:
    """Print fact, cause and action; returns the exit status."""
    click.secho(f"Error: {error.fact}", fg="red", err=True)
    if error.cause:
        click.echo(f"Likely cause: {error.cause}", err=True)
    if error.action:
        click.echo(f"What to do: {error.action}", err=True)
    if isinstance(error, PreconditionsChanged):
        return _CHANGED
    # click's usage errors have status 2 as well: both mean "correct your input".
    return 2 if isinstance(error, Refused) else 1


if __name__ == "__main__":
    sys.exit(main())
