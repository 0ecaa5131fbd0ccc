"""A wheel, installed by pip: `holdfast --help` says where its pages are."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

from holdfast.cli.docs import PAGES, SOURCE
from tests.support.doc_commands import ROOT

PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")
OFFLINE = ("--quiet", "--no-index", "--no-deps")
# pip would otherwise remove what this environment has: the project itself.
BESIDE = ("--ignore-installed", "--prefix")


def _wheel(folder: Path) -> Path:
    """Built from a copy, because setuptools writes beside what it builds from."""
    source = folder / "source"
    leave = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in ("holdfast", "docs"):
        shutil.copytree(ROOT / "jobs" / name, source / "jobs" / name, ignore=leave)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    built = ("--no-build-isolation", "--wheel-dir", str(folder), str(source))
    subprocess.run([*PIP, "wheel", *OFFLINE, *built], check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def _declared() -> bool:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return "data-files" in project["tool"]["setuptools"]


def test_help_of_an_installed_wheel_says_where_the_pages_are(tmp_path: Path) -> None:
    prefix = tmp_path / "installed"
    wheel = _wheel(tmp_path)
    subprocess.run([*PIP, "install", *OFFLINE, *BESIDE, prefix, str(wheel)], check=True)
    site = sysconfig.get_path("purelib", vars={"base": str(prefix)})
    done = subprocess.run(
        [sys.executable, "-m", "holdfast.cli.main", "--help"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": site},
        capture_output=True,
        text=True,
        check=True,
    )
    pages = prefix / "share" / "doc" / "holdfast"
    assert f"Pages in {pages if _declared() else SOURCE}:" in done.stdout
    assert not _declared() or {*PAGES} == {page.name for page in pages.iterdir()}
