"""The arguments that `holdfast deploy --target kubernetes` gives to Helm, and how it finds Helm."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.cli.main import main
from holdfast.deploy.kubernetes.helm import find_chart
from holdfast.deploy.kubernetes.target import last_good
from holdfast.deploy.kubernetes.values import chart_values
from holdfast.errors import InvalidConfig

SQL = """
CREATE STREAM s (k VARCHAR) WITH (KAFKA_TOPIC = 's', VALUE_FORMAT = 'JSON');
CREATE TABLE t AS SELECT k, COUNT(*) AS n FROM s GROUP BY k EMIT CHANGES;
"""


def test_properties_go_where_the_chart_has_a_value_for_them(tmp_path: Path) -> None:
    functions = tmp_path / "mine.py"
    functions.write_text("x = 1\n")
    values = chart_values(
        SQL,
        {
            "bootstrap.servers": "k:9092",
            "executors": "3",
            "executor.memory.mb": 768,
            "kafka.security.protocol": "SSL",
            "state.partitions": 4,
            "functions": str(functions),
            "home": "/here",
            "metrics.port": "1",
        },
        "registry:5000/holdfast:dev",
    )
    assert values == {
        "sql": SQL,
        "properties": {"state.partitions": 4},
        "kafka": {"bootstrapServers": "k:9092", "properties": {"security.protocol": "SSL"}},
        "executor": {"replicas": 3, "heapMiB": 768},
        "functions": {"mine.py": "x = 1\n"},
        "image": {"repository": "registry:5000/holdfast", "tag": "dev"},
    }


def test_an_image_may_have_a_digest_with_or_without_a_tag() -> None:
    digest = "sha256:" + "0a" * 32
    of = {"repository": "registry:5000/a/b", "digest": digest}
    assert chart_values("x", {}, f"registry:5000/a/b@{digest}")["image"] == of
    assert chart_values("x", {}, f"registry:5000/a/b:1@{digest}")["image"] == {**of, "tag": "1"}


@pytest.mark.parametrize("name", ["kafka.sasl.password", "kafka.sasl.password.file"])
def test_a_secret_never_becomes_a_value_of_a_release(name: str) -> None:
    with pytest.raises(InvalidConfig, match=r"not for the values of a release") as refused:
        chart_values("x", {name: "hush"}, None)
    assert "secretProperties: {sasl.password:" in str(refused.value)
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize("image", ["holdfast", "registry:5000/holdfast"])
def test_an_image_needs_a_tag(image: str) -> None:
    with pytest.raises(InvalidConfig, match="has no tag"):
        chart_values(SQL, {}, image)


def test_the_revision_to_go_back_to_was_deployed_once() -> None:
    def history(*statuses: str) -> list[dict[str, object]]:
        return [{"revision": n, "status": s} for n, s in enumerate(statuses, 1)]

    assert last_good(history("deployed")) == 0
    assert last_good(history("superseded", "deployed")) == 1
    assert last_good(history("superseded", "failed", "deployed")) == 1
    assert last_good(history("superseded", "superseded", "failed")) == 2


def test_the_chart_is_the_one_given_or_the_checkouts(tmp_path: Path) -> None:
    assert (find_chart(None) / "Chart.yaml").is_file()
    with pytest.raises(InvalidConfig, match="There is no chart in"):
        find_chart(tmp_path)


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `helm` that writes down its arguments; the only program on the PATH."""
    program = tmp_path / "helm"
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    return program


def script(program: Path, text: str) -> None:
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)


def test_no_helm_is_a_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["status", "x", "--target", "kubernetes"]) == 2
    assert "There is no helm on the PATH" in capsys.readouterr().err


def test_another_helm_is_named(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script(program, "echo v2.17.0")
    assert main(["status", "x", "--target", "kubernetes"]) == 2
    assert (
        f"{program} is neither Helm 3 nor 4: `helm version` printed 'v2.17.0'"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize("version", ["v3.19.0", "v4.3.1"])
def test_a_release_that_is_not_there_is_absent(
    program: Path, capsys: pytest.CaptureFixture[str], version: str
) -> None:
    script(
        program,
        f'[ "$1" = version ] && {{ echo {version}; exit 0; }}\n'
        'echo "Error: release: not found" >&2; exit 1',
    )
    assert main(["status", "x", "--target", "kubernetes", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["state"], found["revision"], found["ready"]) == ("absent", 0, False)
    assert main(["rollback", "x", "--target", "kubernetes"]) == 2
    assert "There is no release x in the namespace holdfast" in capsys.readouterr().err


def test_releases_of_all_namespaces_are_listed_with_theirs(
    program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = tmp_path / "said"
    releases = [
        {"name": name, "namespace": namespace, "chart": chart}
        for name, namespace, chart in (
            ("movies", "b", "holdfast-0.1.0"),
            ("movies", "a", "holdfast-0.1.0"),
            ("platform", "a", "holdfast-platform-0.1.0"),
        )
    ]
    history = [{"revision": 3, "status": "failed", "description": "it did"}]
    script(
        program,
        f'[ "$1" = version ] && {{ echo v3.19.0; exit 0; }}\necho "$@" >> {said}\n'
        f"[ \"$1\" = list ] && echo '{json.dumps(releases)}'\n"
        f"[ \"$1\" = history ] && echo '{json.dumps(history)}'\nexit 0",
    )
    assert main(["status", "--all", "--target", "kubernetes"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(" ")[0] for line in lines] == ["a/movies", "b/movies"]
    assert "list --all-namespaces " in said.read_text()
    assert "history movies --namespace b " in said.read_text()
    assert main(["status", "movies", "--all", "--target", "kubernetes"]) == 2
    assert "--all is for all deployments." in capsys.readouterr().err


def test_a_revision_of_somebody_else_is_not_rolled_back(
    program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = tmp_path / "said"
    history = [{"revision": n, "status": "superseded"} for n in (1, 2)]
    history.append({"revision": 3, "status": "deployed"})
    script(
        program,
        f'[ "$1" = version ] && {{ echo v3.19.0; exit 0; }}\necho "$@" >> {said}\n'
        f"[ \"$1\" = history ] && echo '{json.dumps(history)}'\nexit 0",
    )
    back = ["rollback", "x", "--target", "kubernetes", "--only-from"]
    assert main([*back, "2"]) == 2
    assert "x is at revision 3, not 2: it is not rolled back" in capsys.readouterr().err
    assert "rollback" not in said.read_text()
    assert main([*back, "3"]) == 0
    assert "rollback x 2 " in said.read_text()


@pytest.mark.parametrize(
    ("version", "flag"), [("v3.19.0", "--atomic"), ("v4.3.1", "--rollback-on-failure")]
)
def test_helm_gets_the_values_and_is_asked_to_be_atomic(
    program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], version: str, flag: str
) -> None:
    said = tmp_path / "said"
    script(
        program,
        f'[ "$1" = version ] && {{ echo {version}; exit 0; }}\necho "$@" >> {said}\n'
        f'[ "$1" = upgrade ] && {{ cat "$6" >> {said}; echo "no quota left"; exit 1; }}\nexit 0',
    )
    (tmp_path / "mine.yaml").write_text("driver: {heapMiB: 900}")
    arguments = ["deploy", "tbl", "--sql", SQL, "--target", "kubernetes", "--executors", "1"]
    arguments += ["--values", str(tmp_path / "mine.yaml"), "--image", "holdfast:dev"]
    assert main([*arguments, "--timeout", "9"]) == 1
    assert "`helm upgrade` ended with status 1: no quota left" in capsys.readouterr().err
    text = said.read_text()
    assert f"{flag} --namespace holdfast --wait --timeout 9s" in text
    assert text.index("values.yaml --values") < text.index("mine.yaml"), "the user's come last"
    assert "replicas: 1" in text


def test_the_release_names_the_job(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["deploy", "tbl", "--sql", SQL, "--target", "kubernetes"]
    assert main([*arguments, "--set", "application.id=other"]) == 2
    assert "application.id is other, its release tbl" in capsys.readouterr().err
