"""Lines of Java that a local job leaves out: those that nobody can act upon, and no others."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from holdfast.runtime.jvm.session import prepare_local

_FRAMES = "\tat java.base/a.Pool.reject(Pool.java:833)\n\tat b.C.d(E.scala:1)\n"
_REJECTED = (
    "java.util.concurrent.RejectedExecutionException: "
    "Task F rejected from Pool@1[{state}, pool size = 1]\n"
)
_OTHER = f"java.lang.IllegalStateException: no\n{_FRAMES}Caused by: x\n\t... 1 more\n"


def _read(home: Path, text: str) -> str:
    prepare_local(home)
    script = f". '{home}/spark/bin/load-spark-env.sh'; cat >&2"
    ran = subprocess.run(
        ["bash", "-c", script], input=text, capture_output=True, text=True, check=True, timeout=60
    )
    return ran.stderr


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("WARNING: Using incubator modules: jdk.incubator.vector\na\n", "a\n"),
        (_REJECTED.format(state="Shutting down") + _FRAMES, ""),
        (_REJECTED.format(state="Terminated") + _FRAMES + "a\n\tat b\n", "a\n\tat b\n"),
        (_REJECTED.format(state="Shutting down") + _FRAMES + _OTHER, _OTHER),
        (_REJECTED.format(state="Running") + _FRAMES, _REJECTED.format(state="Running") + _FRAMES),
        (_OTHER, _OTHER),
        (" two  blanks \\n and\nno end", " two  blanks \\n and\nno end\n"),
    ],
)
def test_what_nobody_can_act_upon_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, left: str
) -> None:
    for name in ("SPARK_LOCAL_IP", "PYSPARK_PYTHON", "SPARK_HOME"):
        monkeypatch.setenv(name, "as before")  # so that what it sets is taken back
    assert _read(tmp_path, text) == left
