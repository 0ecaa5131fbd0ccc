"""A fleet that files declare: what is said about them, what is deployed, and what is left alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.models.dagrun import DagRun
from airflow.models.variable import Variable
from airflow.utils.session import create_session
from sqlalchemy import select

from holdfast_airflow.fleet.decide import Need, Tried, decide, place_of
from holdfast_airflow.fleet.jobs_file import Job, read_fleet
from holdfast_airflow.fleet.tasks import ReadFleet

Write = Callable[[str], Path]
GOOD = """
defaults: {target: local, home: HOME}
jobs:
  movies:
    {sql_file: movies.sql, executors: 3, owner: sales, compaction: "0 4 * * 0", chaos: "@daily"}
  flights: {sql: SELECT 2;, home: HOME/2}
"""
LOCAL: dict[str, Any] = {"target": "local", "namespace": "holdfast", "home": "/h"}


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes jobs.yaml as the fleet of this Airflow."""
    (tmp_path / "movies.sql").write_text("SELECT 1;", encoding="utf-8")
    monkeypatch.setenv("HOLDFAST_SQL_FOLDER", str(tmp_path))
    monkeypatch.setenv("HOLDFAST_FLEET", str(tmp_path / "jobs.yaml"))

    def put(text: str) -> Path:
        path = tmp_path / "jobs.yaml"
        path.write_text(text.replace("HOME", str(tmp_path / "home")), encoding="utf-8")
        return path

    return put


def test_jobs_are_read_with_defaults(write: Write) -> None:
    found = read_fleet(write(GOOD))
    assert found.problems == []
    movies, flights = found.jobs
    assert (movies.name, movies.owner, movies.compaction) == ("movies", "sales", "0 4 * * 0")
    assert movies.params["executors"] == 3
    assert movies.params["target"] == flights.params["target"] == "local"
    assert movies.digest != flights.digest


def test_every_problem_is_named_at_once(write: Write) -> None:
    bad = """
default: {}
jobs:
  Movies: {sql: SELECT 1;}
  both: {sql: SELECT 1;, sql_file: movies.sql}
  gone: {sql_file: gone.sql}
  typo: {sql: SELECT 1;, executers: 3, executors: many, chaos: nightly, owner: 7}
  sure: {sql: SELECT 1;, chaos: "@daily", chaos_confirm: other}
  secret: {sql: SELECT 1;, properties: {kafka.sasl.password: hush}}
  list: [1]
  2: {sql: SELECT 1;}
"""
    found = read_fleet(write(bad))
    said = "\n".join(found.problems)
    assert found.jobs == []
    for problem in (
        "there is no key 'default'; did you mean defaults?",
        "Movies: name: 'Movies' does not match",
        "both: Both `sql` and `sql_file` are given",
        "gone: sql_file",
        "typo: there is no key 'executers'; did you mean executors?",
        "typo: executors: 'many' is not of type 'integer'",
        "typo: chaos: 'nightly' is no schedule",
        "typo: owner: 7 is no text",
        "sure: chaos_confirm: 'other' is not the job's name, sure",
        "secret: properties: 'kafka.sasl.password' does not match",
        "list holds no keys and values",
        "2: name: '2' does not match",
    ):
        assert problem in said, said
    assert "hush" not in said


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("jobs: {a: {sql: x}, a: {sql: y}}", "a is given twice"),
        ("jobs: [a]", "hold keys and values"),
        ("- a", "holds a list"),
        ("jobs: {a: {sql: !!python/object/apply:os.system [id]}}", "could not determine"),
        ("jobs: {", "while parsing"),
    ],
)
def test_a_file_that_is_none_is_a_problem(write: Write, text: str, problem: str) -> None:
    found = read_fleet(write(text))
    assert found.jobs == []
    assert problem in "\n".join(found.problems)


def test_a_folder_is_one_fleet_and_a_job_is_declared_once(write: Write, tmp_path: Path) -> None:
    # As Kubernetes mounts a ConfigMap: links into a hidden folder.
    hidden = tmp_path / "fleet" / "..data"
    hidden.mkdir(parents=True)
    for name in ("a.yaml", "b.yaml"):
        (hidden / name).write_text(f"jobs: {{{name[0]}: {{sql: x}}, both: {{sql: x}}}}")
        (tmp_path / "fleet" / name).symlink_to(hidden / name)
    found = read_fleet(tmp_path / "fleet")
    assert [job.name for job in found.jobs] == ["a", "both", "b"]
    assert found.problems == ["b.yaml: both is declared in a.yaml, too"]
    assert "no such file" in read_fleet(tmp_path / "none").problems[0]
    (tmp_path / "empty").mkdir()
    assert "is its ConfigMap there" in read_fleet(tmp_path / "empty").problems[0]


def test_a_configmap_has_the_statements_beside_the_jobs_of_several_namespaces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kubernetes changes a mounted ConfigMap by another hidden folder behind one link."""
    jobs = "defaults: {sql_file: both.sql}\njobs:\n  a: {}\n  b: {namespace: sales, executors: 3}\n"
    monkeypatch.setenv("HOLDFAST_SQL_FOLDER", str(tmp_path))

    def mounted(version: str, sql: str) -> list[Job]:
        (tmp_path / version).mkdir()
        for name, text in (("jobs.yaml", jobs), ("both.sql", sql)):
            (tmp_path / version / name).write_text(text, encoding="utf-8")
            if not (tmp_path / name).is_symlink():
                (tmp_path / name).symlink_to(Path("..data", name))
        (tmp_path / "..new").symlink_to(version)
        (tmp_path / "..new").rename(tmp_path / "..data")
        found = read_fleet(tmp_path)
        assert found.problems == []
        return found.jobs

    before = mounted("..1", "SELECT 1;")
    assert [place_of(job.place) for job in before] == ["kubernetes/holdfast", "kubernetes/sales"]
    after = mounted("..2", "SELECT 2;")
    assert all(old.digest != new.digest for old, new in zip(before, after, strict=True))


def test_namespaces_without_a_declared_job_are_looked_at_too(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else nobody would be told of the last job there once its declaration is gone."""
    write("jobs: {a: {sql: x, namespace: sales}}")
    monkeypatch.setenv("HOLDFAST_FLEET_NAMESPACES", "web,sales")
    places = ReadFleet(task_id="read_jobs").execute(cast("Any", {"ti": Mock()}))
    assert [place_of(place) for place in places] == ["kubernetes/sales", "kubernetes/web"]


def test_another_time_limit_is_no_other_job_and_another_file_is(
    write: Write, tmp_path: Path
) -> None:
    def digest() -> str:
        return read_fleet(tmp_path / "jobs.yaml").jobs[0].digest

    write("jobs: {m: {sql_file: movies.sql}}")
    before = digest()
    write("jobs: {m: {sql_file: movies.sql, catch_up_timeout_minutes: 5}}")
    assert digest() == before
    (tmp_path / "movies.sql").write_text("SELECT 3;", encoding="utf-8")
    assert digest() != before


@pytest.mark.parametrize(
    ("revision", "tried", "need"),
    [
        (0, None, Need.MISSING),
        (4, None, Need.DIFFERS),
        (4, Tried("d", "r", "success", 4), Need.LEVEL),
        (5, Tried("d", "r", "success", 4), Need.DIFFERS),
        (4, Tried("other", "r", "success", 4), Need.DIFFERS),
        (4, Tried("d", "r", "", 0), Need.DIFFERS),
        (0, Tried("d", "r", "success", 4), Need.MISSING),
        (0, Tried("d", "r", "running", 0), Need.IN_PROGRESS),
        (3, Tried("other", "r", "queued", 0), Need.IN_PROGRESS),
        (3, Tried("d", "r", "failed", 4), Need.FAILED),
        (0, Tried("d", "r", "failed", 0), Need.FAILED),
        (3, Tried("other", "r", "failed", 4), Need.DIFFERS),
    ],
    ids=str,
)
def test_what_a_job_needs(revision: int, tried: Tried | None, need: Need) -> None:
    job = Job("movies", {}, "d", LOCAL)
    present: Mapping[str, Mapping[str, int]] = {"local//h": {"movies": revision, "old": 1}}
    found = decide([job], present if revision else {"local//h": {"old": 1}}, lambda _: tried)
    assert found.jobs[0].need is need
    assert found.undeclared == ("old (local//h)",)


def _run(dags_folder: Path) -> tuple[DagRun, dict[str, list[str]]]:
    bag = DagBag(dags_folder / "deploy_fleet.py", bundle_name="dags-folder")
    assert bag.import_errors == {}
    found: DagRun = bag.dags["deploy_fleet"].test()
    states: dict[str, list[str]] = {}
    for task in found.get_task_instances():
        states.setdefault(task.task_id, []).append(str(task.state))
    return found, states


def _xcom(run: DagRun, task: str, key: str) -> Any:
    instance = run.get_task_instance(task)
    assert instance is not None
    return instance.xcom_pull(task_ids=task, key=key, run_id=run.run_id)


def _triggered() -> dict[str, dict[str, Any]]:
    with create_session() as session:
        found = session.scalars(select(DagRun).where(DagRun.run_id.startswith("fleet__")))
        confs = [dict(run.conf or {}) for run in found]
    return {conf["name"]: conf for conf in confs}


def _ended(name: str, state: str) -> None:
    """Ends the run that the fleet has triggered, as the scheduler would."""
    with create_session() as session:
        of_job = DagRun.run_id.startswith(f"fleet__{name}__")
        for run in session.scalars(select(DagRun).where(of_job)):
            run.state = state


def test_what_is_missing_is_deployed_and_what_nobody_declared_is_listed(
    dags_folder: Path, database: None, write: Write, stand_in: Callable[[str], Path]
) -> None:
    write(GOOD)
    there = [{"name": "flights", "revision": 2}, {"name": "old", "revision": 1}]
    calls = stand_in(f"case $* in *home/2*) echo '{json.dumps(there)}' ;; *) echo '[]' ;; esac")
    run, states = _run(dags_folder)
    assert states["deploy"] == ["success", "success"], "flights is not the fleet's own"
    assert (states["failed_before"], str(run.state)) == (["success"], "success")
    assert {name: conf.get("executors") for name, conf in _triggered().items()} == {
        "movies": 3, "flights": None,
    }  # fmt: skip
    assert "owner" not in _triggered()["movies"]
    (undeclared,) = _xcom(run, "decide", "undeclared")
    assert undeclared.startswith("old (local/")
    said = calls.read_text(encoding="utf-8").splitlines()
    assert [line.split()[0] for line in said] == ["status"] * 2, "each place is looked at once"
    # Both runs wait for the scheduler, so a second look begins nothing.
    run, states = _run(dags_folder)
    assert (states["deploy"], str(run.state)) == (["skipped"], "success")
    _ended("movies", "failed")
    run, states = _run(dags_folder)
    assert (states["failed_before"], str(run.state)) == (["failed"], "failed")
    why = _xcom(run, "failed_before", "reason")
    assert why.startswith("movies: the run fleet__movies__")
    assert "clear that run to try again" in why
    with create_session() as session:
        kept = session.scalars(select(Variable).where(Variable.key.startswith("holdfast_fleet/")))
        assert len({json.loads(variable.val)["run"] for variable in kept}) == 2


def test_a_bad_file_changes_nothing_and_names_its_problems(
    dags_folder: Path, database: None, write: Write, stand_in: Callable[[str], Path]
) -> None:
    write("jobs: {good: {sql: x}, bad: {sqlfile: y}}")
    calls = stand_in("echo '[]'")
    run, states = _run(dags_folder)
    assert (states["read_jobs"], str(run.state)) == (["failed"], "failed")
    assert not calls.exists()
    assert "did you mean sql_file?" in _xcom(run, "read_jobs", "reason")
    assert "good" not in _triggered()


def test_chaos_of_each_job_of_a_fleet_is_confirmed_by_its_own_declaration(
    dags_folder: Path, database: None, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_CHAOS_CONFIRM", "other")  # of `chaos_daily`
    sure = '{sql: SELECT 1;, chaos: "@daily", chaos_confirm: sure}'
    write(f'jobs: {{sure: {sure}, unsure: {{sql: SELECT 2;, chaos: "@daily"}}}}')
    bag = DagBag(dags_folder / "deploy_fleet.py", bundle_name="dags-folder")
    confirmed = {
        name: bag.dags[f"chaos_of_{name}"].params.dump()["confirm"] for name in ("sure", "unsure")
    }
    assert confirmed == {"sure": "sure", "unsure": None}


def test_each_schedule_of_a_job_is_a_dag(dags_folder: Path, database: None, write: Write) -> None:
    write(GOOD + '  broken: {sqlfile: x, chaos: "@daily"}\n')
    bag = DagBag(dags_folder / "deploy_fleet.py", bundle_name="dags-folder")
    assert bag.import_errors == {}
    assert sorted(bag.dags) == ["chaos_of_movies", "compaction_of_movies", "deploy_fleet"]
    chaos, compaction = bag.dags["chaos_of_movies"], bag.dags["compaction_of_movies"]
    assert {task.owner for task in chaos.tasks} == {"sales"}
    assert (chaos.params.dump()["name"], chaos.params.dump()["target"]) == ("movies", "local")
    (trigger,) = cast("list[Any]", compaction.tasks)
    # Two runs at once would find, and take back, each other's settings of the cleaner.
    assert trigger.trigger_dag_id == "plan_changelog_compaction"
    assert trigger.conf["jobs"] == ["movies"]
    assert getattr(compaction.timetable, "expression", None) == "0 4 * * 0"
    assert bag.dags["deploy_fleet"].timetable.can_be_scheduled
