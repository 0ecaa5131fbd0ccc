"""A run's folder, its job and its target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from holdfast.cli.statements.options import Job, Sql, load_job
from holdfast.config.load import from_yaml
from holdfast.config.secrets import FILE, is_secret, names_file
from holdfast.errors import HoldfastError, InvalidConfig, Refused
from holdfast.types.components import QUERY, TOPIC

if TYPE_CHECKING:
    from holdfast.chaos.faults.remote_store_faults import Stores
    from holdfast.chaos.faults.target import Target
    from holdfast.chaos.faults.topic_remaker import TopicRemaker
    from holdfast.chaos.history.run_file import RunFile
    from holdfast.chaos.reads.sessions import Access
    from holdfast.chaos.run.run import Run
    from holdfast.cli.chaos.options import JobOptions
    from holdfast.config.settings import Settings
    from holdfast.transport.cluster.admin import Admin

__all__ = ["Hit", "asked_job", "home_of", "named", "open_run", "remaker_of", "target_of"]


@dataclass(frozen=True)
class Hit:
    """Parts of a job that faults may change for good.

    Attributes:
        topics: input topics, see `TopicTarget`.
        remaker: see there.
        queries: ids of queries, see `RescaleTarget`.
    """

    topics: tuple[str, ...] = ()
    remaker: TopicRemaker | str = ""
    queries: tuple[str, ...] = ()


def target_of(target: str, namespace: str, name: str, settings: Settings, hit: Hit) -> Target:
    """The target that runs the job, with all components that `hit` and the settings add."""
    place = _place_of(target, namespace, name, settings)
    if settings.placement.standbys:
        from holdfast.chaos.faults.standby_faults import StandbyTarget

        place = StandbyTarget(place)
    if not settings.state.on_volumes and settings.state.remote.uri:
        from holdfast.chaos.faults.remote_store_faults import RemoteStoreTarget

        stores = cache(partial(_remote_stores, target, namespace, name, settings))
        place = RemoteStoreTarget(place, stores)
    if not hit.topics and not hit.queries:
        return place
    from holdfast.chaos.faults.rescale_faults import RescaleTarget
    from holdfast.chaos.faults.topic_faults import TopicTarget
    from holdfast.cli.chaos.rescales import ControlTopic
    from holdfast.state.topics.orders import OrderBook
    from holdfast.transport.cluster.admin import Admin

    admin = cache(lambda: Admin(settings.client()))
    name = settings.application_id
    rescales = cache(lambda: ControlTopic(OrderBook(admin(), settings.client(), name)))
    place = RescaleTarget(place, name, hit.queries, rescales, partial(_count, admin))
    return TopicTarget(place, hit.topics, admin, hit.remaker)


def _remote_stores(target: str, namespace: str, name: str, settings: Settings) -> Stores:
    """The job's stores in its database; a cluster's database may be reached by its pods only."""
    if target == "local":
        from holdfast.state.remote.opening import RemoteStores

        return RemoteStores(settings.state.remote, settings.application_id)
    from holdfast.chaos.targets.kubernetes.in_executor import InExecutor, PodStores

    return PodStores(InExecutor(namespace, name))


def _count(admin: Callable[[], Admin], topic: str) -> int:
    """The number of partitions of a topic; 0: there is none."""
    found = admin().describe(topic)
    return 0 if found is None else found.partitions


def remaker_of(job: Job, folder: Path, *, own: bool) -> TopicRemaker | str:
    """The function that recreates the job's input topics, or the reason why that is refused."""
    if not own:
        return "only in a run with --own: chaos deletes no topics of others"
    if job.settings.ingest.fail_on_data_loss:
        return (
            "the job has fail.on.data.loss=true and stops at a topic that was made again; "
            "leave the property out, then --own sets it to false"
        )
    from holdfast.chaos.faults.topic_remaker import TopicRemaker

    return TopicRemaker(folder, job.topology, job.settings)


def _place_of(target: str, namespace: str, name: str, settings: Settings) -> Target:
    if target == "local":
        from holdfast.chaos.targets.local.nemesis import LocalTarget

        place = LocalTarget(name, settings)
        return _with_snapshots(place, settings) if settings.snapshots.uri else place
    from holdfast.chaos.faults.snapshot_faults import SnapshotTarget
    from holdfast.chaos.targets.kubernetes.in_executor import InExecutor, PodSnapshots
    from holdfast.chaos.targets.kubernetes.nemesis import KubernetesTarget

    pods = KubernetesTarget(namespace, name)
    if not settings.snapshots.uri:
        return pods
    return SnapshotTarget(pods, PodSnapshots(InExecutor(namespace, name)))


def _with_snapshots(place: Target, settings: Settings) -> Target:
    from holdfast.chaos.faults.snapshot_faults import SnapshotTarget
    from holdfast.chaos.targets.local.snapshot_folder import SnapshotFolderTarget, folder_of
    from holdfast.cli.in_pod.snapshots import JobSnapshots

    snapshots = JobSnapshots(settings.snapshots.uri, settings.application_id)
    root = folder_of(settings.snapshots.uri)
    if root is None:
        return SnapshotTarget(place, snapshots)
    return SnapshotFolderTarget(place, snapshots, root)


def open_run(
    run: str, home: str | None, tell: Callable[[str], None], access: Access | None = None
) -> Run:
    """A run that `precheck` has planned; `access`: for reading from query servers.

    Raises:
        Refused: no run has that name.
    """
    from holdfast.chaos.faults.rescale_faults import rescaled_of
    from holdfast.chaos.faults.topic_faults import topics_of
    from holdfast.chaos.history.run_file import RunFile, run_folder
    from holdfast.chaos.reads.sessions import Access
    from holdfast.chaos.run.run import Run

    folder = run_folder(home_of(home), run)
    asked = RunFile.read(folder)
    job = job_of(asked, folder, home)

    def target() -> Target:
        components = {injection.component for injection in asked.schedule}
        hit = Hit(
            topics_of(job.topology) if TOPIC in components else (),
            remaker_of(job, folder, own=asked.own),
            rescaled_of(job.topology) if QUERY in components else (),
        )
        return target_of(asked.target, asked.namespace, asked.name, job.settings, hit)

    return Run(folder, asked, job.topology, job.settings, target, tell, access or Access())


def job_of(asked: RunFile, folder: Path, home: str | None) -> Job:
    """The job in the run's file."""
    config = folder / "config.yaml" if asked.config else None
    if config is not None and not config.exists():
        config.write_text(asked.config, encoding="utf-8")
    return load_job(Sql(given=asked.sql), config, asked.overrides, home, name=asked.name)


def named(options: JobOptions) -> JobOptions:
    """The options of the job NAME, or of the job that writes the table NAME.

    Raises:
        Refused: several jobs write a table of that name.
    """
    return named_job(options, home_of(options.home), lambda one: asked_job(one)[0])


def asked_job(options: JobOptions) -> tuple[Job, str, str, tuple[str, ...]]:
    """(job, its statements, the text of its YAML file, its properties as `key=value`).

    Without statements the deployed job is used; properties given here, in a file or one by one,
    override its own.

    Raises:
        Refused: there is no such deployment.
        InvalidConfig: the YAML file holds a secret.
    """
    if options.sql is None:
        sql, config, overrides = _deployed(options)
        overrides = (*overrides, *_on_top(options.config), *options.overrides)
    else:
        sql, config, overrides = options.sql, options.config, options.overrides
    job = load_job(sql, config, overrides, options.home, name=options.name)
    servers = f"bootstrap.servers={job.settings.bootstrap_servers}"
    text = config.read_text(encoding="utf-8") if config is not None else ""
    _refuse_secrets(config)
    if job.settings.application_id != options.name and options.target == "kubernetes":
        raise Refused(
            f"The job's application.id is {job.settings.application_id}, its release "
            f"{options.name}.",
            action="leave application.id out: on Kubernetes the release's name is the job's",
        )
    # The broker may be down when a later step looks for it.
    return job, sql.text(), text, (*overrides, servers)


def _on_top(config: Path | None) -> tuple[str, ...]:
    """The properties of a YAML file as `key=value`."""
    _refuse_secrets(config)
    given = from_yaml(config).values if config is not None else {}
    return tuple(f"{name}={_text(value)}" for name, value in given.items())


def _refuse_secrets(config: Path | None) -> None:
    """Refuse secrets in the file: the run's folder keeps its text, and others may read it."""
    given = from_yaml(config).values if config is not None else {}
    for name in filter(is_secret, given):
        raise InvalidConfig(
            f"{config} holds {name}, and the folder of a chaos run keeps that file's text.",
            action=f"write {name}{FILE} into it, the path of a file that holds the secret; deploy "
            "the job again if it was deployed with it",
        )


def _deployed(options: JobOptions) -> tuple[Sql, Path | None, tuple[str, ...]]:
    if options.target == "kubernetes":
        from holdfast.chaos.targets.kubernetes.nemesis import KubernetesTarget

        text, properties = KubernetesTarget(options.namespace, options.name).job_files()
        # The files of the job's pods do not exist here: secrets have to be given again, by file or
        # environment.
        here = {k: v for k, v in properties.items() if not names_file(k)}
        return Sql(given=text), None, tuple(f"{k}={_text(v)}" for k, v in here.items())
    from holdfast.deploy.local.revisions import Revisions

    folder = home_of(options.home) / "deploy" / options.name
    revisions = Revisions(folder)
    if not revisions.current:
        raise Refused(
            f"There is no deployment {options.name} in {folder.parent}, and none makes a table of "
            "that name.",
            action="deploy it first (`holdfast deploy`), or give `run` --own and an SQL_FILE",
        )
    files = revisions.files(revisions.current)
    config = folder / f"revision-{revisions.current}.yaml" if files.config else None
    return Sql(given=files.sql), config, files.overrides


def _text(value: object) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def home_of(home: str | None) -> Path:
    """The folder of local files that --home names, else the default one."""
    from holdfast.cli.statements.options import load_settings

    return Path(load_settings(None, (), home).home)


def named_job(
    options: JobOptions, home: Path, deployed_job: Callable[[JobOptions], Job]
) -> JobOptions:
    """The options with the name of the job that was found; unchanged if none was.

    Raises:
        Refused: several jobs make a table of that name.
    """
    if options.sql is not None:
        return options
    jobs = _jobs(options, home)
    if options.name in jobs:
        return options
    makers = [job for job in jobs if _makes(options.name, replace(options, name=job), deployed_job)]
    if len(makers) > 1:
        raise Refused(
            f"{len(makers)} jobs write {options.name}: {', '.join(makers)}.",
            action="give the name of the one to break",
        )
    return replace(options, name=makers[0]) if makers else options


def _jobs(options: JobOptions, home: Path) -> list[str]:
    if options.target == "kubernetes":
        from holdfast.chaos.targets.kubernetes.places import releases
        from holdfast.deploy.kubernetes.client import KubeClient

        return releases(KubeClient(), options.namespace)
    from holdfast.deploy.local.revisions import Revisions

    return sorted(f.name for f in (home / "deploy").glob("*") if Revisions(f).current)


def _makes(table: str, options: JobOptions, deployed_job: Callable[[JobOptions], Job]) -> bool:
    """Whether a job writes the table; unquoted names are upper-case.  False for unreadable jobs."""
    try:
        made = {query.sink.name for query in deployed_job(options).topology.queries}
    except HoldfastError:
        return False
    return table.upper() in made or table in made
