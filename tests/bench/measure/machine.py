"""The header of a report: which machine, which versions, which commit."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from importlib.metadata import version
from pathlib import Path

import psutil

from holdfast.config.versions import KAFKA_VERSION
from holdfast.local.java import find_java

__all__ = ["describe"]

_ROOT = Path(__file__).parents[2]
_PACKAGES = ("pyspark", "confluent-kafka", "pyarrow", "rocksdict", "numpy")


def describe() -> dict[str, str]:
    """What a number needs to be compared with another one."""
    return {
        "date": time.strftime("%Y-%m-%d %H:%M:%S %z"),
        "commit": _commit(),
        "cpu": f"{os.cpu_count()} x {_cpu()}",
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "load before": ", ".join(f"{n:.2f}" for n in os.getloadavg()),
        "system": platform.platform(),
        "python": platform.python_version(),
        "java": _java(),
        "kafka": f"{KAFKA_VERSION}, one local broker, 4 partitions, lz4",
        **{name: version(name) for name in _PACKAGES},
    }


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _java() -> str:
    ran = subprocess.run([find_java(), "-version"], check=False, capture_output=True, text=True)
    return ran.stderr.splitlines()[0] if ran.stderr else "unknown"


def _commit() -> str:
    def git(*arguments: str) -> str:
        command = ["git", "-C", str(_ROOT), *arguments]
        return subprocess.run(command, check=False, capture_output=True, text=True).stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no", "--", "jobs", "tests/bench")
    return (git("rev-parse", "--short=12", "HEAD") or "none") + (" with changes" if changed else "")
