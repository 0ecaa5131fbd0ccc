"""Jobs that are deployed on this machine, as their real folders tell them."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

from holdfast.deploy.local.logs import DeploymentsOfHome
from holdfast.deploy.local.revisions import JobFiles, Revisions
from holdfast.deploy.local.supervisor import SupervisorRecord
from holdfast.serve.console.app import Console
from holdfast.serve.console.jobs import Beside
from holdfast.state.files import write_json
from tests.support.console.driver import DriverOf
from tests.support.console.world import JOB, World
from tests.unit.serve.console.test_app import Asking

NAME = "films"  # the deployment's name is not the job's


def _deploy(home: Path, starts: int, reason: str = "") -> None:
    folder = home / "deploy" / NAME
    revisions = Revisions(folder)
    number = revisions.add(JobFiles(JOB, "SELECT 1;", "", (), "/tmp", "/tmp/state"))
    revisions.deployed(number)
    record = replace(SupervisorRecord(1, "", number), starts=starts, reason=reason)
    write_json(folder / "supervisor.json", 1, asdict(record))
    (folder / "driver.log").write_text("a line\n")


def _asking(home: Path) -> Asking:
    world = World()
    beside = Beside([DriverOf(world).url], deployments=DeploymentsOfHome(home))
    serving = world.serving(home)
    return Asking(world, serving, Console(serving, beside))


def test_a_deployment_belongs_to_its_job_and_says_how_often_and_why_it_was_restarted(
    tmp_path: Path,
) -> None:
    _deploy(tmp_path, 3, "the driver was killed by signal 9")
    asking = _asking(tmp_path)
    (job,) = asking.get("/console/api/jobs").json
    told = job["deployment"]
    assert (job["application_id"], told["name"], told["revision"]) == (JOB, NAME, 1)
    assert (told["starts"], told["last_end"]) == (3, "the driver was killed by signal 9")
    log = asking.get(f"/console/api/jobs/{NAME}/log").json
    assert log == {"deployment": NAME, "lines": ["a line"]}


def test_a_first_start_is_no_restart(tmp_path: Path) -> None:
    _deploy(tmp_path, 1)
    (job,) = _asking(tmp_path).get("/console/api/jobs").json
    assert (job["deployment"]["starts"], job["deployment"]["last_end"]) == (1, "")
