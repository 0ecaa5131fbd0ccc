from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from holdfast import __version__
from holdfast.cli import main as module
from holdfast.cli.main import cli, main
from holdfast.config.properties import PROPERTIES
from holdfast.errors import HoldfastError, InvalidStatement, KafkaUnavailable


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> list[BaseException]:
    """A command `fail` that raises whatever the test puts into the list."""
    errors: list[BaseException] = []

    @click.command("fail")
    def command() -> None:
        raise errors[0]

    monkeypatch.setattr(
        cli, "get_command", lambda _, name: command if name == "fail" else None, raising=True
    )
    return errors


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (
            InvalidStatement(
                "unknown column X", cause="a typo", action="write Y", line=1, column=2
            ),
            2,
        ),
        (KafkaUnavailable("no broker answered", cause="a typo", action="write Y"), 1),
        (HoldfastError("it stopped", cause="a typo", action="write Y"), 1),
    ],
)
def test_errors_are_printed_as_fact_cause_and_action(
    failing: list[BaseException],
    capsys: pytest.CaptureFixture[str],
    error: HoldfastError,
    status: int,
) -> None:
    failing.append(error)
    assert main(["fail"]) == status
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        f"Error: {error.fact}",
        "Likely cause: a typo",
        "What to do: write Y",
    ]


def test_debug_shows_where_it_happened(failing: list[BaseException]) -> None:
    failing.append(HoldfastError("it stopped"))
    with pytest.raises(HoldfastError):
        main(["--debug", "fail"])


def test_what_is_no_error_of_ours_is_a_bug_and_keeps_its_traceback(
    failing: list[BaseException],
) -> None:
    failing.append(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        main(["fail"])


def test_a_place_that_cannot_be_written_is_named(
    failing: list[BaseException], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    try:
        (tmp_path / "file" / "home").mkdir()
    except OSError as error:
        failing.append(error)
    assert main(["fail"]) == 2
    told = capsys.readouterr().err
    assert f"{tmp_path}/file/home cannot be used: Not a directory." in told
    assert "--home" in told


def test_an_error_of_a_socket_keeps_its_traceback(failing: list[BaseException]) -> None:
    failing.append(ConnectionResetError(104, "Connection reset by peer"))
    with pytest.raises(ConnectionResetError):
        main(["fail"])


def test_ctrl_c_ends_quietly(
    failing: list[BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    failing.append(KeyboardInterrupt())
    assert main(["fail"]) == 130
    assert capsys.readouterr().err.strip() == "Stopped."


def test_usage_errors_have_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "--nonsense"]) == 2
    assert "No such option" in capsys.readouterr().err
    assert main(["nonsense"]) == 2
    assert "Did you mean" not in capsys.readouterr().err
    assert main(["statuss"]) == 2
    assert "No such command 'statuss'. Did you mean status?" in capsys.readouterr().err


@pytest.mark.parametrize("name", sorted(module._COMMANDS))
def test_every_command_exists_and_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"Usage: holdfast {name}")


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert main(["version"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"holdfast, version {__version__}"
    assert lines[1] == f"holdfast {__version__}"
    assert "pyspark 4.3.0" in lines


def test_config_prints_every_property(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config"]) == 0
    plain = capsys.readouterr().out
    assert main(["config", "--markdown"]) == 0
    table = capsys.readouterr().out
    for name in PROPERTIES:
        assert name in plain
        assert f"| `{name}` |" in table


def test_kafka_that_does_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = ["--home", str(tmp_path)]
    assert main(["kafka", "status", *home]) == 3
    assert main(["kafka", "stop", *home]) == 0
    assert capsys.readouterr().out == "Kafka does not run.\nNo Kafka was running.\n"


def test_reset_spares_a_home_whose_job_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import os
    import time

    from holdfast.types.status import JobState, JobStatus, status_path

    (tmp_path / "state").mkdir()
    path = status_path(tmp_path, "app")
    now_ms = int(time.time() * 1000)
    JobStatus("app", pid=os.getpid(), state=JobState.RUNNING, updated_ms=now_ms).write(path)
    assert main(["kafka", "reset", "--home", str(tmp_path)]) == 2
    assert f"The job app runs (pid {os.getpid()})" in capsys.readouterr().err
    assert (tmp_path / "state").is_dir()

    JobStatus("app", pid=os.getpid(), state=JobState.STOPPED, updated_ms=now_ms).write(path)
    assert main(["kafka", "reset", "--home", str(tmp_path)]) == 0
    assert list(tmp_path.iterdir()) == []


def test_log_lines_can_be_json(
    failing: list[BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    import logging

    failing.append(HoldfastError("x"))
    main(["--log-format", "json", "fail"])
    logging.getLogger("holdfast.x").warning("told")
    last = capsys.readouterr().err.splitlines()[-1]
    assert json.loads(last)["event"] == "told"
