"""`holdfast deploy`: a job that keeps running, on this machine or on Kubernetes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import orjson

from holdfast.cli.deployed.targets import namespace_option, target_option
from holdfast.cli.progress import reporter
from holdfast.cli.statements.options import (
    Job,
    Sql,
    job_options,
    json_errors,
    json_option,
    load_job,
    named_properties,
    sigterm_interrupts,
    sql_options,
)
from holdfast.errors import InvalidConfig, KafkaUnavailable, RegistryUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.deploy.deployment import Deployment

__all__ = ["command", "deploy_local"]


@click.command("deploy")
@click.argument("name")
@sql_options
@target_option
@job_options
@click.option(
    "--from-savepoint",
    metavar="APPLICATION/NAME",
    help="Begin with a savepoint of another job.  The same as --set savepoint.from=…",
)
@click.option("--executors", type=click.IntRange(min=1), help="The same as --set executors=N.")
@click.option(
    "--servers",
    type=click.IntRange(min=0, max=100),
    default=0,
    show_default=True,
    help="Query servers beside the job.  (local; in the chart: serve.enabled)",
)
@namespace_option
@click.option(
    "--values",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    multiple=True,
    help="File of chart values; may be repeated.  (kubernetes)",
)
@click.option(
    "--chart",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Folder of the chart.  (kubernetes)  [default: the image's, or helm/holdfast]",
)
@click.option("--image", envvar="HOLDFAST_IMAGE", help="Holdfast's image.  (kubernetes)")
@click.option(
    "--timeout",
    type=click.FloatRange(min=1),
    default=300.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait until the job is ready.",
)
@click.option(
    "--take-over",
    is_flag=True,
    help="End a driver of this job that another deployment runs, rather than be refused.",
)
@click.option("--no-wait", is_flag=True, help="Do not wait until the job is ready.  (local)")
@json_option
def command(
    name: str,
    sql: Sql,
    target: str,
    config: Path | None,
    overrides: tuple[str, ...],
    home: str | None,
    from_savepoint: str | None,
    executors: int | None,
    servers: int,
    namespace: str,
    values: tuple[Path, ...],
    chart: Path | None,
    image: str | None,
    timeout: float,
    take_over: bool,
    no_wait: bool,
    as_json: bool,
) -> None:
    """Deploy the statements of SQL_FILE (or --sql) as NAME, or a new revision of NAME.

    The job is checked first (`holdfast check`), then started; if it does not become ready, the
    previous revision runs again. With --target local a supervisor keeps the job running on this
    machine; with --target kubernetes it is a Helm release.
    """
    if from_savepoint is not None:
        overrides = (*overrides, f"savepoint.from={from_savepoint}")
    if executors is not None:
        overrides = (*overrides, f"executors={executors}")
    with sigterm_interrupts(), json_errors(as_json), reporter() as tell:
        job = load_job(sql, config, overrides, home, name=name)
        if target == "local":
            found = deploy_local(
                name, job, sql, config, overrides, timeout, tell,
                wait=not no_wait, servers=servers, take_over=take_over,
            )  # fmt: skip
        else:
            _refuse_servers(servers)
            given = named_properties(config, overrides)
            found = _kubernetes(
                name, job, sql, given, namespace, values, chart, image, timeout, tell,
                take_over=take_over,
            )  # fmt: skip
    click.echo(orjson.dumps(found.as_json()).decode() if as_json else found.as_text())


def deploy_local(
    name: str,
    job: Job,
    sql: Sql,
    config: Path | None,
    overrides: tuple[str, ...],
    timeout_s: float,
    tell: Callable[[str], None],
    *,
    wait: bool,
    servers: int = 0,
    take_over: bool = False,
) -> Deployment:
    """Check the job and deploy it on this machine; see `LocalDeployment.deploy`."""
    from holdfast.deploy.checks.preflight import check
    from holdfast.deploy.local.revisions import JobFiles
    from holdfast.deploy.local.target import LocalDeployment
    from holdfast.local.java import find_java

    find_java()
    settings = job.settings
    deployment = LocalDeployment(Path(settings.home), name)
    tell(f"checking {name}")
    check(job.topology, settings)
    files = JobFiles(
        application_id=settings.application_id,
        sql=sql.text(),
        config=config.read_text(encoding="utf-8") if config is not None else "",
        overrides=(f"application.id={settings.application_id}", *overrides),
        folder=str(Path.cwd()),
        state_dir=str(Path(settings.state.dir or Path(settings.home, "state")).absolute()),
        servers=servers,
        snapshot_uri=settings.snapshots.uri,
    )
    return deployment.deploy(files, timeout_s, tell, wait=wait, take_over=take_over)


def _refuse_servers(count: int) -> None:
    if count:
        raise InvalidConfig(
            "--servers starts query servers on this machine.",
            action="for a release give --values with serve.enabled, serve.replicas and serve.auth",
        )


def _kubernetes(
    name: str,
    job: Job,
    sql: Sql,
    given: dict[str, object],
    namespace: str,
    values: tuple[Path, ...],
    chart: Path | None,
    image: str | None,
    timeout_s: float,
    tell: Callable[[str], None],
    *,
    take_over: bool,
) -> Deployment:
    from holdfast.deploy.kubernetes.target import KubernetesDeployment
    from holdfast.deploy.kubernetes.values import chart_values

    if job.settings.application_id != name:
        raise InvalidConfig(
            f"The job's application.id is {job.settings.application_id}, its release {name}.",
            cause="on Kubernetes the release's name is the job's",
            action="leave application.id out, or deploy under that name",
        )
    built = chart_values(sql.text(), given, image)
    if take_over:
        built["driver"] = {**built.get("driver", {}), "takeOver": True}
    _check_from_here(job, given, tell)
    deployment = KubernetesDeployment(namespace, name)
    return deployment.deploy(built, values, chart, timeout_s, tell)


def _check_from_here(job: Job, given: dict[str, object], tell: Callable[[str], None]) -> None:
    """Refuse early if Kafka can be reached from here; the chart checks again in any case."""
    from holdfast.deploy.checks.preflight import check
    from holdfast.local.probe import is_known

    tell(f"checking {job.settings.application_id}")
    if "bootstrap.servers" not in given:
        return
    servers = job.settings.bootstrap_servers
    if not is_known(servers):
        tell(f"left to the chart's preflight: {servers} is known in the cluster only")
        return
    try:
        check(job.topology, job.settings)
    except (KafkaUnavailable, RegistryUnavailable) as error:
        tell(f"left to the chart's preflight: {error.fact}")
