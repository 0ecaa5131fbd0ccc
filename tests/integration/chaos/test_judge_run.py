"""A whole run judged on a real broker: tables, input and history from one folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.chaos.history.run_file import RunFile
from holdfast.chaos.report.summary import read_summary
from holdfast.chaos.run.judge import judge_run
from holdfast.config.settings import Settings
from holdfast.judge.verdict import RunVerdict, Verdict
from holdfast.types.statements.topology import Topology
from tests.integration.chaos.jobs import TITLES, Job, Kafka
from tests.unit.chaos.runs import SCHEDULE, good_run


@pytest.fixture
def job(kafka: Kafka) -> Iterator[Job]:
    made = Job(kafka.bootstrap_servers)
    yield made
    made.producer.close()


def judged(job: Job, folder: Path) -> RunVerdict:
    run = good_run()
    run.load(len(TITLES))
    run.write(folder)
    RunFile(folder.name, "job", "local", "", job.query.statement, "", (), 1, SCHEDULE, 10).write(
        folder
    )
    settings = Settings(job.application_id, job.client["bootstrap.servers"])
    told: list[str] = []
    return judge_run(folder, Topology((job.query,)), settings, stores=None, tell=told.append)


def bad(verdict: RunVerdict) -> dict[str, Verdict]:
    findings = [*verdict.findings, *(f for t in verdict.job.tables for f in t.findings)]
    return {f.checker: f.verdict for f in findings if f.verdict is not Verdict.VALID}


def test_a_good_run_is_valid_and_its_verdict_is_kept(job: Job, tmp_path: Path) -> None:
    job.read(run=tmp_path.name)
    job.mark()
    job.emit_all()
    verdict = judged(job, tmp_path)
    assert bad(verdict) == {}
    assert verdict.verdict is Verdict.VALID
    assert set(verdict.recovery_s) == {"broker delete-now", "driver pause"}
    assert read_summary(tmp_path).verdict == verdict


def test_records_of_another_run_are_not_this_one_s(job: Job, tmp_path: Path) -> None:
    job.read(run=f"{tmp_path.name}-baseline")
    job.mark()
    job.emit_all()
    assert bad(judged(job, tmp_path)) == {"acked_is_there": Verdict.INVALID}


def test_a_wrong_table_makes_a_good_run_invalid(job: Job, tmp_path: Path) -> None:
    job.read(run=tmp_path.name)
    job.mark()
    for title in TITLES[1:]:
        job.emit(title, 1)
    verdict = judged(job, tmp_path)
    assert verdict.verdict is Verdict.INVALID
    assert bad(verdict)["diverged_values"] is Verdict.INVALID
