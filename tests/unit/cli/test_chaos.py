"""`holdfast chaos` up to the point where something would be broken."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.chaos.faults.topic_remaker import TopicRemaker
from holdfast.chaos.faults.words import Fault
from holdfast.chaos.history.run_file import RunFile
from holdfast.chaos.load.records import LoadShape
from holdfast.chaos.reads.sessions import Access
from holdfast.cli.chaos import reading
from holdfast.cli.chaos.opening import asked_job, remaker_of
from holdfast.cli.chaos.options import JobOptions, PlanOptions
from holdfast.cli.chaos.own import going_on
from holdfast.cli.main import main
from holdfast.cli.statements.options import Sql
from holdfast.deploy.local.revisions import JobFiles, Revisions
from holdfast.errors import InvalidConfig
from holdfast.local.probe import free_port
from tests.support.serve.http_answers import answering
from tests.unit.deploy.local_job import NAME, LocalJob, local_job

SQL = (
    "CREATE STREAM s (k STRING, v INT) WITH (KAFKA_TOPIC='in', VALUE_FORMAT='JSON', PARTITIONS=1);"
    "CREATE TABLE t AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;"
)


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalJob]:
    with local_job(tmp_path_factory.mktemp("home")) as made:
        yield made


def _precheck(job: LocalJob, *asked: str, sql: str = SQL) -> int:
    given = ["chaos", "precheck", NAME, "--sql", sql, "--home", str(job.home)]
    return main([*given, "--set", "bootstrap.servers=127.0.0.1:1", *asked])


def _told(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_precheck_prints_seed_and_schedule_and_writes_them_down(
    job: LocalJob, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("--run", "one", "--seed", "7", "--rounds", "5", "--rate", "50", "--keys", "9")
    assert _precheck(job, *asked) == 0
    printed = capsys.readouterr().out
    assert "seed 7, 5 faults, to orders (local)" in printed
    written = RunFile.read(job.home / "chaos" / "one")
    assert (written.seed, written.rate, written.load.keys) == (7, 50, 9)
    assert len(written.schedule) == 5
    assert {i.component for i in written.schedule} <= {"driver", "executor"}, "no broker is ours"
    assert {i.moment.value for i in written.schedule} <= {"random", "recovery"}, "there is no hook"
    assert "bootstrap.servers=127.0.0.1:1" in written.overrides
    assert _precheck(job, *asked) == 2, "a run is never written over"
    assert "There is a run in" in capsys.readouterr().err


def test_the_same_seed_gives_the_same_schedule_and_a_dry_run_writes_nothing(
    job: LocalJob, capsys: pytest.CaptureFixture[str]
) -> None:
    schedules = []
    for seed in ("3", "3", "4"):
        assert _precheck(job, "--run", "dry", "--dry-run", "--json", "--seed", seed) == 0
        said = capsys.readouterr()
        schedules.append(json.loads(said.out)["schedule"])
        assert said.err.startswith(f"seed {seed}, "), "for people, as without --json"
    assert schedules[0] == schedules[1] != schedules[2]
    assert not (job.home / "chaos" / "dry").exists()


@pytest.mark.parametrize(
    ("asked", "rounds", "words"),
    [
        ((), 10, "seed 3, 10 faults, to orders"),
        (("--duration", ""), 10, "seed 3, 10 faults, to orders"),
        (("--duration", "10m"), 300, "at most 300 faults, none after 0:10:00, to orders"),
        (("--duration", "2h", "--rounds", "7"), 7, "at most 7 faults, none after 2:00:00"),
    ],
)
def test_a_run_ends_by_the_number_of_its_faults_or_by_its_time(
    job: LocalJob,
    capsys: pytest.CaptureFixture[str],
    asked: tuple[str, ...],
    rounds: int,
    words: str,
) -> None:
    same = ("--run", "timed", "--dry-run", "--seed", "3", *asked)
    assert _precheck(job, *same, "--json") == 0
    told = _told(capsys)
    assert len(told["schedule"]) == rounds
    assert _precheck(job, *same) == 0
    head, *lines, _ = capsys.readouterr().out.splitlines()
    assert words in head
    assert len(lines) == min(rounds, 41), "the beginning of a long one"


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (("--components", "scheduler"), "There is no scheduler to hit here; there are: driver"),
        (("--components", "broker"), "There is no broker to hit here"),
        (("--components", "driver", "--faults", "disk-full"), "disk-full cannot be done to driver"),
        (("--faults", "cut-off"), "cut-off cannot be done to driver, executor here"),
        (("--moments", "begun,random"), "cannot be aimed at begun here"),
        (("--moments", "recovery"), "Nothing of what was asked can be done"),
        (("--run", "../up"), "is no name for a run"),
        (("--duration", "10"), "'10' is no time from 1s to 6h"),
        (("--duration", "7h"), "'7h' is no time from 1s to 6h"),
        (("--faults", "fire"), "'fire' is no fault; there are: delete"),
        (("--moments", "noon"), "'noon' is no moment; there are: random"),
        (("--garbage", "0.1", "--set", "deserialization.error=fail"), "cannot be decoded"),
        (("--tombstones", "0.7", "--garbage", "0.7"), "More than every record"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_is_touched(
    job: LocalJob, capsys: pytest.CaptureFixture[str], asked: tuple[str, ...], words: str
) -> None:
    assert _precheck(job, "--dry-run", *asked) == 2
    assert words in capsys.readouterr().err


def test_a_table_that_nobody_could_judge_is_refused(
    job: LocalJob, capsys: pytest.CaptureFixture[str]
) -> None:
    delimited = SQL.replace("JSON", "DELIMITED")
    assert _precheck(job, "--dry-run", sql=delimited) == 2
    assert "The judge cannot recompute T" in capsys.readouterr().err


def test_a_job_is_named_by_a_table_that_it_alone_makes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with local_job(tmp_path) as job:
        _named_by_its_table(job, capsys)


def _named_by_its_table(job: LocalJob, capsys: pytest.CaptureFixture[str]) -> None:
    servers = "bootstrap.servers=127.0.0.1:1"

    def deployed(folder: Path, statements: str) -> None:
        revisions = Revisions(folder)
        files = JobFiles(folder.name, statements, "", (servers,), str(job.home), str(job.state))
        revisions.deployed(revisions.add(files))

    def precheck(name: str) -> int:
        return main(["chaos", "precheck", name, "--home", str(job.home), "--dry-run", "--json"])

    deployed(job.folder, SQL)
    deployed(job.home / "deploy" / "other", SQL.replace("TABLE t AS", "TABLE u AS"))
    assert precheck("t") == 0
    assert _told(capsys)["name"] == NAME
    assert precheck("v") == 2
    assert "There is no deployment v" in capsys.readouterr().err
    deployed(job.home / "deploy" / "third", SQL)
    assert precheck("t") == 2
    assert "2 jobs write t: orders, third." in capsys.readouterr().err


def test_properties_of_a_file_come_on_top_of_those_of_the_deployment(tmp_path: Path) -> None:
    revisions = Revisions(tmp_path / "deploy" / "shop")
    own = "kafka:\n  sasl.username: job\n  client.id: theirs\n"
    files = JobFiles("shop", SQL, own, ("state.partitions=3",), "", "")
    revisions.deployed(revisions.add(files))
    (tmp_path / "deploy" / "shop" / "revision-1.yaml").write_text(own)  # as its start does
    config, password = tmp_path / "breaker.yaml", tmp_path / "password"
    password.write_text("hunter2")
    config.write_text(f"kafka:\n  sasl.username: breaker\n  sasl.password.file: {password}\n")
    options = JobOptions("shop", None, "local", "", config, ("state.partitions=4",), str(tmp_path))
    job, _, kept, overrides = asked_job(options)
    assert job.settings.kafka == {
        "sasl.username": "breaker", "sasl.password": "hunter2", "client.id": "theirs",
    }  # fmt: skip
    assert job.settings.state.partitions == 4
    assert kept == own
    assert not any("hunter2" in text for text in overrides)
    config.write_text("kafka.sasl.password: hunter2\n")
    with pytest.raises(InvalidConfig, match=r"breaker\.yaml holds kafka\.sasl\.password"):
        asked_job(options)


def test_a_job_that_is_not_ready_or_not_there_is_refused(
    job: LocalJob, capsys: pytest.CaptureFixture[str]
) -> None:
    job.ready = False
    try:
        assert _precheck(job, "--dry-run") == 2
    finally:
        job.ready = True
    assert "orders is not ready" in capsys.readouterr().err
    given = ["chaos", "precheck", "other", "--sql", SQL, "--home", str(job.home)]
    assert main(given) == 2
    assert "There is no deployment other" in capsys.readouterr().err


def _query_server(tables: Sequence[str], token: str = "") -> AbstractContextManager[str]:
    """Tells which tables it has who shows the token."""

    def answer(shown: str, _asked: bytes) -> tuple[int, Any]:
        if shown != (f"Bearer {token}" if token else ""):
            return 401, {"message": "who?"}
        return 200, {"tables": [{"name": name} for name in tables]}

    return answering(answer)


def test_query_servers_are_named_or_started_with_a_job_of_the_run_s_own(
    job: LocalJob, capsys: pytest.CaptureFixture[str]
) -> None:
    with _query_server(["T", "OTHER"]) as a, _query_server(["T"]) as b:
        assert _precheck(job, "--run", "read", "--ask", f"{a}, {b}") == 0
    assert RunFile.read(job.home / "chaos" / "read").servers == (a, b)
    assert _precheck(job, "--run", "nobody", "--ask", "none") == 0
    assert RunFile.read(job.home / "chaos" / "nobody").servers == ()
    assert _precheck(job, "--run", "not", "--servers", "2") == 2
    assert "--servers starts query servers beside a job" in capsys.readouterr().err


def test_a_token_comes_from_a_file_or_the_environment_and_is_written_nowhere(
    job: LocalJob,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    file = tmp_path / "token"
    file.write_text("a-secret\n")
    with _query_server(["T"], token="a-secret") as url:
        assert _precheck(job, "--dry-run", "--ask", url) == 2
        assert "cannot be read from: who?" in capsys.readouterr().err
        assert _precheck(job, "--run", "file", "--ask", url, "--token-file", str(file)) == 0
        monkeypatch.setenv("HOLDFAST_CLI_SERVER_TOKEN", "a-secret")
        assert _precheck(job, "--dry-run", "--ask", url) == 0
    assert "a-secret" not in capsys.readouterr().out
    assert "a-secret" not in (job.home / "chaos" / "file" / "run.json").read_text()
    assert "a-secret" not in repr(Access("a-secret"))


def test_servers_that_do_not_answer_or_have_other_tables_are_refused(
    job: LocalJob, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_SERVED_S", 0.1)
    assert _precheck(job, "--dry-run", "--ask", f"http://127.0.0.1:{free_port()}") == 2
    assert "cannot be read from" in capsys.readouterr().err
    with _query_server(["OTHER"]) as url:
        assert _precheck(job, "--dry-run", "--ask", url) == 2
    assert f"The query server {url} shows no T." in capsys.readouterr().err


def test_steps_refuse_a_run_that_nobody_has_begun(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for step in ("baseline", "workload", "nemesis", "heal", "quiesce", "verify"):
        assert main(["chaos", step, "--run", "none", "--home", str(tmp_path)]) == 2
        assert "There is no run in" in capsys.readouterr().err
    assert main(["chaos", "report", "--run", "none", "--home", str(tmp_path)]) == 2
    assert "holds no judged run" in capsys.readouterr().err


def test_own_needs_statements_and_a_home_without_a_kafka(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = ["chaos", "run", "mine", "--own", "--home", str(tmp_path)]
    assert main(run) == 2
    assert "give an SQL_FILE" in capsys.readouterr().err
    (tmp_path / "kafka").mkdir()
    assert main([*run, "--sql", SQL]) == 2
    assert "which --own would delete in the end" in capsys.readouterr().err
    assert (tmp_path / "kafka").exists()


def test_only_a_run_s_own_topics_are_made_again(
    job: LocalJob, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("--dry-run", "--components", "topic", "--faults")
    assert _precheck(job, *asked, "recreate-topic") == 2
    told = capsys.readouterr().err
    assert "recreate-topic cannot be done to topic here" in told
    assert "only in a run with --own: chaos deletes no topics of others" in told
    assert _precheck(job, *asked, "add-partition") == 0


@pytest.mark.parametrize(
    ("components", "faults", "loss"),
    [
        ((), (), "false"),
        (("topic",), (Fault.RECREATE_TOPIC,), "false"),
        (("executor",), (), None),
        (("topic", "driver"), (Fault.ADD_PARTITION, Fault.KILL), None),
    ],
)
def test_a_job_of_the_run_goes_on_where_its_topics_may_be_made_again(
    components: tuple[str, ...], faults: tuple[Fault, ...], loss: str | None
) -> None:
    asked = JobOptions("own", Sql(given=SQL), "local", "", None, (), None)
    own = going_on(asked, _plan(components, faults))
    assert own.overrides == (() if loss is None else (f"fail.on.data.loss={loss}",))


@pytest.mark.parametrize("own_word", [(), ("fail.on.data.loss=true",)])
def test_a_job_that_stops_at_a_topic_made_again_is_not_given_one(
    tmp_path: Path, own_word: tuple[str, ...]
) -> None:
    """The job's own properties take precedence over the run's."""
    asked = JobOptions("own", Sql(given=SQL), "local", "", None, own_word, str(tmp_path))
    found, *_ = asked_job(going_on(asked, _plan((), ())))
    remaker = remaker_of(found, tmp_path, own=True)
    if own_word:
        assert isinstance(remaker, str)
        assert "fail.on.data.loss=true and stops at a topic that was made again" in remaker
    else:
        assert isinstance(remaker, TopicRemaker)


def _plan(components: tuple[str, ...], faults: tuple[Fault, ...]) -> PlanOptions:
    plan = PlanOptions("r", 1, (), (), (), 3, 0.0, 10, LoadShape(), 0, (), Access(), "")
    return replace(plan, components=components, faults=faults)
