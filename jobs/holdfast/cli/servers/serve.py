"""`holdfast serve`: runs a query server over the tables of scripts."""

from __future__ import annotations

import asyncio
import signal
import ssl
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.progress import Progress, TaskID

from holdfast.cli.progress import progress_bars
from holdfast.cli.statements.options import Sql, job_options, load_job
from holdfast.config.settings import Settings
from holdfast.errors import InvalidConfig

if TYPE_CHECKING:
    from holdfast.serve.cluster.peer import PeerSettings
    from holdfast.serve.console.jobs import Beside
    from holdfast.serve.follow.catalog import Script
    from holdfast.serve.follow.standby import Standby
    from holdfast.serve.http.server import Listen
    from holdfast.serve.node import Node

__all__ = ["command"]

_SHOW_S = 0.25
_FILE = click.Path(path_type=Path, dir_okay=False)


@dataclass(frozen=True)
class _Options:
    """The options other than scripts and settings."""

    listen: str
    server_id: int
    servers: int
    copies: int
    peers: str
    tokens: Path | None
    peer_token_file: Path | None
    peer_ca: Path | None
    tls_cert: Path | None
    tls_key: Path | None
    client_ca: Path | None
    insecure: bool
    audit: Path | None
    rate_limit: float
    drivers: tuple[str, ...]
    runs_of: tuple[Path, ...]
    pods_of: str


@click.command("serve")
@click.argument("scripts", nargs=-1, metavar="FILE.sql...", type=click.Path(path_type=Path))
@click.option("--sql", "sql_text", metavar="TEXT", help="The statements, instead of FILE.sql.")
@job_options
@click.option(
    "--listen",
    default="127.0.0.1:8088",
    show_default=True,
    metavar="HOST:PORT",
    help="Address for clients and peers.",
)
@click.option(
    "--server-id",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    envvar="HOLDFAST_CLI_SERVER_ID",
    help="This server's number, counted from 0.",
)
@click.option(
    "--servers",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Number of servers that share the tables.",
)
@click.option(
    "--copies",
    type=click.IntRange(min=1),
    default=2,
    show_default=True,
    help="Number of servers that hold each state partition, at most all servers.",
)
@click.option(
    "--peers",
    default="",
    metavar="URLS",
    help="Addresses of all servers in order, comma-separated; or one with {id} in it.",
)
@click.option(
    "--tokens",
    type=_FILE,
    help="File of clients and their permissions, as `holdfast token` writes it.",
)
@click.option(
    "--peer-token-file",
    type=_FILE,
    help="File with the servers' token for each other; on loopback they share one in their folder.",
)
@click.option("--peer-ca", type=_FILE, help="CA certificates for the peers' certificates.")
@click.option("--tls-cert", type=_FILE, help="Certificate of this server, PEM.")
@click.option("--tls-key", type=_FILE, help="Its key, PEM.")
@click.option(
    "--client-ca",
    type=_FILE,
    help="CA certificates: only clients with a certificate of theirs are admitted.",
)
@click.option("--insecure", is_flag=True, help="Admit everybody who reaches the address.")
@click.option("--audit", type=_FILE, help="Log each query and its client, as lines of JSON.")
@click.option(
    "--rate-limit",
    type=click.FloatRange(min=0),
    default=0.0,
    show_default=True,
    help="Requests per second of one client; 0: no limit.",
)
@click.option(
    "--driver",
    "drivers",
    multiple=True,
    metavar="URL",
    help="Address of a job's driver, for the console; drivers in the same home are found anyway.",
)
@click.option(
    "--runs-of",
    multiple=True,
    metavar="HOME",
    type=click.Path(path_type=Path, file_okay=False),
    help="Another home whose compaction plans and chaos runs the console shows.",
)
@click.option(
    "--pods-of",
    default="",
    metavar="RELEASE",
    help="The Helm release that this server's pod belongs to: the console shows its pods and logs.",
)
def command(
    scripts: tuple[Path, ...],
    sql_text: str | None,
    config: Path | None,
    overrides: tuple[str, ...],
    home: str | None,
    **options: object,
) -> None:
    """Answer queries over the tables of FILE.sql from local copies.

    The server follows the tables' changelogs into stores below the home, and answers pull and push
    queries in SQL whether or not the job runs. Files are read again when they change. Each file is
    one job; its application.id is its --set, its SET, or its name.
    """
    given = _Options(**options)  # type: ignore[arg-type]  # click has checked them
    if bool(scripts) == (sql_text is not None):
        raise click.UsageError("Give either FILE.sql... or --sql TEXT.")
    sources = [Sql(given=sql_text)] if sql_text is not None else [Sql(path) for path in scripts]
    jobs = [_script(sql, config, overrides, home) for sql in sources]
    settings = _settings(jobs)
    listen = _listen(given, settings)
    listen.check()
    peer_token = _peer_token(given, listen, settings)
    listen, peers = replace(listen, peer_token=peer_token), _peer_settings(given, peer_token)
    asyncio.run(_run([script for script, _ in jobs], settings, given, listen, peers))


def _script(
    sql: Sql, config: Path | None, overrides: tuple[str, ...], home: str | None
) -> tuple[Script, Settings]:
    from holdfast.serve.follow.catalog import Script
    from holdfast.types.statements.topology import Topology

    def load() -> tuple[Topology, Settings]:
        job = load_job(sql, config, overrides, home)
        return job.topology, job.settings

    return Script(sql.name, sql.text, load), load()[1]


def _settings(jobs: list[tuple[Script, Settings]]) -> Settings:
    first = jobs[0][1]
    for script, settings in jobs[1:]:
        if settings.client() != first.client():
            raise InvalidConfig(
                f"{script.name} is about {settings.bootstrap_servers}, {jobs[0][0].name} about "
                f"{first.bootstrap_servers}.",
                action="serve jobs of different Kafka clusters by servers of their own.",
            )
    return first


def _listen(given: _Options, settings: Settings) -> Listen:
    from holdfast.serve.http.request import Limits
    from holdfast.serve.http.server import Listen

    host, _, port = given.listen.rpartition(":")
    if not host or not port.isdigit():
        raise click.UsageError(f"--listen {given.listen} is not HOST:PORT.")
    return Listen(
        host=host.strip("[]"),
        port=int(port),
        tokens=given.tokens,
        cert=given.tls_cert,
        key=given.tls_key,
        client_ca=given.client_ca,
        insecure=given.insecure,
        audit=given.audit,
        limits=Limits.of(settings.serve, given.rate_limit),
    )


def _peer_token(given: _Options, listen: Listen, settings: Settings) -> str:
    """The servers' token for each other; empty if there is only one server."""
    from holdfast.serve.cluster.peer import token_of_folder
    from holdfast.serve.node import volumes_of

    if given.servers == 1:
        return ""
    if given.peer_token_file is not None:
        return _secret(given.peer_token_file)
    if listen.local:
        folder = volumes_of(settings)
        try:
            return token_of_folder(folder)
        except OSError as error:
            raise InvalidConfig(f"{folder} cannot be used: {error.strerror}.") from error
    raise InvalidConfig(
        f"{given.servers} servers can be reached from other machines, and have no token "
        "for each other.",
        action="give all of them the same --peer-token-file: any long random text.",
    )


def _peer_settings(given: _Options, token: str) -> PeerSettings:
    from holdfast.serve.cluster.peer import PeerSettings

    tls = None
    if given.peer_ca is not None or given.tls_cert is not None:
        tls = ssl.create_default_context(cafile=given.peer_ca)
        if given.tls_cert is not None:  # presented to peers that require clients' certificates
            tls.load_cert_chain(given.tls_cert, given.tls_key)
    return PeerSettings(token, tls)


def _secret(path: Path) -> str:
    try:
        found = path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise InvalidConfig(f"{path} cannot be read: {error.strerror}.") from error
    if not found:
        raise InvalidConfig(f"{path} is empty.", action="write any long random text into it.")
    return found


async def _run(
    scripts: list[Script], settings: Settings, given: _Options, listen: Listen, peers: PeerSettings
) -> None:
    from holdfast.serve.cluster.members import Plan
    from holdfast.serve.server import answering

    addresses = given.peers or listen.url
    plan = Plan.of(given.server_id, given.servers, given.copies, addresses)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    server = answering(
        scripts,
        settings,
        plan,
        listen,
        peers,
        _beside(given, Path(settings.home)),
    )
    async with server as node:
        click.echo(f"Server {plan.me} of {len(plan.addresses)} answers at {listen.url}", err=True)
        shown = asyncio.create_task(_show_restores(node))
        await stop.wait()
        shown.cancel()


def _beside(given: _Options, home: Path) -> Beside:
    from holdfast.deploy.kubernetes.release_pods import PodsOfRelease
    from holdfast.deploy.local.logs import DeploymentsOfHome
    from holdfast.serve.console.jobs import Beside
    from holdfast.serve.console.pods import NoPods

    pods = PodsOfRelease(given.pods_of) if given.pods_of else NoPods()
    return Beside(given.drivers, given.runs_of, DeploymentsOfHome(home), pods)


async def _show_restores(node: Node) -> None:
    """Show a bar for each store that is being restored, on a terminal."""
    with progress_bars() as bars:
        shown: dict[str, TaskID] = {}
        while True:
            for standby in node.follower.standbys():
                _show(bars, shown, standby)
            await asyncio.sleep(_SHOW_S)


def _show(bars: Progress, shown: dict[str, TaskID], standby: Standby) -> None:
    state = standby.state()
    if state.restoring and standby.name not in shown:
        shown[standby.name] = bars.add_task(f"restoring {standby.name}", total=state.end)
    elif state.restoring:
        bars.update(shown[standby.name], completed=state.position, total=state.end)
    elif standby.name in shown:
        bars.remove_task(shown.pop(standby.name))
