"""A wheel, installed by pip: for clients, and for the command line."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

import pytest

from holdfast import __version__
from holdfast.cli.docs import PAGES, SOURCE
from holdfast.local.broker import BrokerStatus
from tests.support.doc_commands import ROOT

PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")
OFFLINE = ("--quiet", "--no-index", "--no-deps")
# pip would otherwise remove what this environment has: the project itself.
BESIDE = ("--ignore-installed", "--prefix")


def _wheel(folder: Path) -> Path:
    """Built from a copy, because setuptools writes beside what it builds from."""
    source = folder / "source"
    leave = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in ("holdfast", "docs", "examples"):
        shutil.copytree(ROOT / "jobs" / name, source / "jobs" / name, ignore=leave)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    built = ("--no-build-isolation", "--wheel-dir", str(folder), str(source))
    subprocess.run([*PIP, "wheel", *OFFLINE, *built], check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def _requirements(wheel: Path) -> list[str]:
    with ZipFile(wheel) as files:
        (name,) = [n for n in files.namelist() if n.endswith(".dist-info/METADATA")]
        return Parser().parsestr(files.read(name).decode()).get_all("Requires-Dist", [])


def _declared() -> bool:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return "data-files" in project["tool"]["setuptools"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _wheel(tmp_path_factory.mktemp("wheel"))


def _installed(wheel: Path, prefix: Path) -> Path:
    """The folder of the installed package."""
    subprocess.run([*PIP, "install", *OFFLINE, *BESIDE, prefix, str(wheel)], check=True)
    return Path(sysconfig.get_path("purelib", vars={"base": str(prefix)}))


# Those of httpx alone, its own included.
OF_HTTPX = ("httpx", "httpcore", "h11", "anyio", "certifi", "idna", "typing_extensions.py")


def _with_httpx_only(site: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Runs code that finds the wheel, httpx with what it needs, and nothing else."""
    here = Path(sysconfig.get_path("purelib"))
    for name in OF_HTTPX:
        (site / name).symlink_to(here / name)
    run = f"import sys; sys.path.append({str(site)!r}); {code}"
    command = [sys.executable, "-I", "-S", "-c", run]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_clients_need_httpx_only(wheel: Path, tmp_path: Path) -> None:
    told = _requirements(wheel)
    assert [r for r in told if 'extra == "client"' in r] == ['httpx<1,>=0.28; extra == "client"']
    assert [r for r in told if "extra ==" not in r] == [], "without an extra it wants nothing"
    ask = (
        "from holdfast.client import Client\n"
        "with Client('http://127.0.0.1:1', retry_s=0.1) as client:\n"
        "    client.query('SELECT 1;')"
    )
    done = _with_httpx_only(_installed(wheel, tmp_path), f"exec({ask!r})")
    assert done.returncode == 1
    assert "no server answered in 0.1 s" in done.stderr


def test_a_client_s_installation_says_what_the_command_line_needs(
    wheel: Path, tmp_path: Path
) -> None:
    start = "from holdfast.cli.start import main; sys.exit(main())"
    done = _with_httpx_only(_installed(wheel, tmp_path), start)
    assert done.returncode == 2
    assert "needs the package click" in done.stderr
    assert "pip install 'holdfast[engine]'" in done.stderr


def test_the_command_line_of_a_wheel_tells_its_version_and_checks_an_example(
    wheel: Path, tmp_path: Path, kafka: BrokerStatus
) -> None:
    site = _installed(wheel, tmp_path)
    example = tmp_path / "share" / "holdfast" / "examples" / "movies.sql"
    brokers = f"bootstrap.servers={kafka.bootstrap_servers}"
    for arguments, says in (
        (["--version"], f"holdfast, version {__version__}"),
        (["check", str(example), "--set", brokers, "--home", str(tmp_path)], "MOVIE_TICKETS_SOLD"),
    ):
        done = subprocess.run(
            [str(tmp_path / "bin" / "holdfast"), *arguments],
            env=os.environ | {"PYTHONPATH": str(site)},
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert says in done.stdout + done.stderr


def test_help_of_an_installed_wheel_says_where_the_pages_are(wheel: Path, tmp_path: Path) -> None:
    prefix = tmp_path / "installed"
    site = _installed(wheel, prefix)
    done = subprocess.run(
        [sys.executable, "-m", "holdfast.cli.main", "--help"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=True,
    )
    pages = prefix / "share" / "doc" / "holdfast"
    assert f"Pages in {pages if _declared() else SOURCE}:" in done.stdout
    assert not _declared() or {*PAGES} == {page.name for page in pages.iterdir()}
