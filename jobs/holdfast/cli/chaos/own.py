"""A Kafka and a deployment only for the run, which are removed when it is over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.chaos.faults.words import Fault
from holdfast.errors import Refused
from holdfast.types.components import TOPIC

if TYPE_CHECKING:
    from holdfast.cli.chaos.options import JobOptions, PlanOptions

__all__ = ["going_on", "own_job"]

_READY_S = 300.0


def going_on(options: JobOptions, plan: PlanOptions) -> JobOptions:
    """The job with `fail.on.data.loss=false` if its input topics may be recreated.

    With the default a job stops at a recreated topic, as it should.
    """
    wanted = not plan.faults or Fault.RECREATE_TOPIC in plan.faults
    if not wanted or (plan.components and TOPIC not in plan.components):
        return options
    return replace(options, overrides=("fail.on.data.loss=false", *options.overrides))


@contextmanager
def own_job(options: JobOptions, servers: int, tell: Callable[[str], None]) -> Iterator[None]:
    """Start Kafka, the job and its query servers; remove all but the run's folder and logs.

    Raises:
        Refused: no statements were given, or the home already holds a Kafka.
    """
    from holdfast.cli.statements.options import load_settings
    from holdfast.local.broker import LocalKafka

    if options.target != "local" or options.sql is None:
        raise Refused(
            "--own deploys a job of its own, on this machine and from statements.",
            action="give an SQL_FILE (or --sql) and leave --target kubernetes out",
        )
    home = Path(load_settings(None, (), options.home).home)
    kafka = LocalKafka(home)
    if kafka.folder.exists():
        raise Refused(
            f"There is a Kafka in {kafka.folder}, which --own would delete in the end.",
            cause="another job uses this home, or a run before was killed",
            action="give another --home; if a killed run left it, `holdfast kafka stop` and remove "
            "the folder",
        )
    try:
        tell("starting a Kafka of the run's own")
        kafka.start(port=0)
        _deploy(options, servers, tell)
        yield
    finally:
        _clear(home, options.name, kafka.wipe)


def _deploy(options: JobOptions, servers: int, tell: Callable[[str], None]) -> None:
    from holdfast.cli.deployed.deploy import deploy_local
    from holdfast.cli.statements.options import load_job

    assert options.sql is not None, "own_job has refused that"
    job = load_job(options.sql, options.config, options.overrides, options.home, name=options.name)
    deploy_local(options.name, job, options.sql, options.config, options.overrides, _READY_S,
                 tell, wait=True, servers=servers)  # fmt: skip


def _clear(home: Path, name: str, wipe: Callable[[], None]) -> None:
    from holdfast.deploy.local.target import LocalDeployment

    with suppress(Refused):  # the job was never deployed
        LocalDeployment(home, name).undeploy(delete_state=True)
    wipe()
