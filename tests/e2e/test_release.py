"""A release: built twice, in different places and surroundings, it is the same bytes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import holdfast
from tests.support.doc_commands import ROOT

pytestmark = pytest.mark.timeout(900)

VERSION = holdfast.__version__
HELM = os.environ.get("HELM", "helm")
WHEEL = f"holdfast-{VERSION}-py3-none-any.whl"
SOURCE = f"holdfast-{VERSION}.tar.gz"
SBOM = f"holdfast-{VERSION}.cdx.json"
CHARTS = {f"charts/holdfast-{VERSION}.tgz", f"charts/holdfast-platform-{VERSION}.tgz"}


def _run(*command: str | Path, cwd: Path = ROOT, **environment: str) -> str:
    known = {name: value for name, value in os.environ.items() if name != "BASE_IMAGE"}
    ran = subprocess.run(
        command, cwd=cwd, env=known | environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def commit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone whose commit is the files as they lie here, committed or not."""
    here = tmp_path_factory.mktemp("commit") / "project"
    _run("git", "clone", "--quiet", ROOT, here)
    shutil.rmtree(here / "jobs")
    for name in _run("git", "ls-files", "--cached", "--others", "--exclude-standard").splitlines():
        if (ROOT / name).is_file():
            (here / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, here / name)
    _run("git", "add", "--all", cwd=here)
    who = ("-c", "user.name=tests", "-c", "user.email=tests@example.com")
    _run("git", *who, "commit", "--quiet", "--allow-empty", "-m", "Tried", cwd=here)
    return here


@pytest.fixture(scope="module")
def first(commit: Path) -> tuple[Path, str]:
    """The folder that a release was built into, and what the build said."""
    _run("make", "build/sbom/.installed")
    out = commit.parent / "first"
    (commit / "untracked.py").write_text("print('not in the release')\n")
    tools = str(ROOT / "build/sbom/bin")
    said = _run(sys.executable, ".ci/release", "--out", out, cwd=commit, TOOLS=tools)
    return out, said


def _files(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def test_a_release_is_whole_and_says_what_it_skips(first: tuple[Path, str]) -> None:
    out, said = first
    charts = CHARTS if shutil.which(HELM) else set()
    assert set(_files(out)) == {WHEEL, SOURCE, SBOM, "SHA256SUMS"} | charts
    assert "SKIPPED: images. BASE_IMAGE is not set" in said
    assert "NOTE: 1 files differ from the commit" in said
    checked = _run("sha256sum", "--check", "SHA256SUMS", cwd=out)
    assert checked.count(": OK") == 3 + len(charts)


def test_make_leaves_the_images_to_the_release_unless_it_is_told() -> None:
    assert " IMAGES='' " in _run("make", "-n", "release")
    assert " IMAGES='holdfast' " in _run("make", "-n", "release", "IMAGES=holdfast")


def test_two_builds_are_the_same_bytes(commit: Path, first: tuple[Path, str]) -> None:
    elsewhere = commit.parent / "another" / "place"
    _run("git", "clone", "--quiet", commit, elsewhere)
    out = commit.parent / "second"
    build = f'umask 077; exec "{sys.executable}" .ci/release --out "{out}"'
    surroundings = {"TZ": "Asia/Kathmandu", "PYTHONHASHSEED": "7", "LC_ALL": "C"}
    tools = str(ROOT / "build/sbom/bin")
    _run("bash", "-c", build, cwd=elsewhere, TOOLS=tools, **surroundings)
    once, again = _files(first[0]), _files(out)
    assert once.keys() == again.keys()
    assert [name for name in once if once[name] != again[name]] == []


def test_what_is_in_it_is_the_commit_s(commit: Path, first: tuple[Path, str]) -> None:
    at = int(_run("git", "log", "-1", "--format=%ct", cwd=commit))
    with tarfile.open(first[0] / SOURCE) as source, zipfile.ZipFile(first[0] / WHEEL) as wheel:
        assert {member.mtime for member in source.getmembers()} == {at}
        assert {member.uname for member in source.getmembers()} == {""}
        inside = set(wheel.namelist())
        assert not [n for n in (*source.getnames(), *inside) if "untracked" in n or "tests/" in n]
    package = {str(p.relative_to(ROOT / "jobs")) for p in (ROOT / "jobs/holdfast").rglob("*.py")}
    assert package <= inside


@pytest.mark.skipif(shutil.which(HELM) is None, reason=f"{HELM} is not on the PATH")
def test_helm_takes_the_charts_as_the_folders(first: tuple[Path, str]) -> None:
    for name in CHARTS:
        chart = Path(name).name.removesuffix(f"-{VERSION}.tgz")
        packed = _run(HELM, "show", "all", first[0] / name)
        assert packed == _run(HELM, "show", "all", ROOT / "helm" / chart)


def test_the_sbom_has_what_the_lock_file_pins(first: tuple[Path, str]) -> None:
    told = json.loads((first[0] / SBOM).read_text())
    assert told["bomFormat"] == "CycloneDX"
    assert told["metadata"]["component"]["version"] == VERSION
    found = {f"{part['name']}=={part['version']}" for part in told["components"]}
    lock = (ROOT / "requirements-image.lock").read_text().splitlines()
    pins = {line.split()[0] for line in lock if "==" in line and not line.startswith((" ", "#"))}
    assert len(pins) > 20
    assert pins == found
