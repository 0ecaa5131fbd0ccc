"""The entry for spark-submit: `spark-submit --master … jobs/state_table.py FILE.sql [options]`.

It is `holdfast run` with spark-submit's master, unless `--set spark.master=…` names another.  A
`local` master has no executors for state, so such jobs run like `holdfast run`.  Executors need the
package holdfast installed, or on their PYTHONPATH.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder

__all__ = ["arguments", "prefer_installed"]

_UNDER_SPARK_SUBMIT = "PYSPARK_GATEWAY_PORT"


def prefer_installed(path: list[str]) -> list[str]:
    """The module path without spark-submit's zipped PySpark, if an installed one remains.

    A local cluster links to PySpark's files, which a zip does not have.
    """
    rest = [entry for entry in path if not entry.endswith("pyspark.zip")]
    return rest if PathFinder.find_spec("pyspark", rest) else path


def arguments(given: list[str], master: str) -> list[str]:
    """The command line of `holdfast run`; the user's properties come later and win."""
    placed = bool(master) and master != "local" and not master.startswith("local[")
    submitted = ["--set", f"spark.master={master}"] if placed else []
    return ["run", *submitted, *given]


def _submitted_master() -> str:
    if _UNDER_SPARK_SUBMIT not in os.environ:
        return ""
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()  # connects to spark-submit's JVM
    return SparkConf().get("spark.master", "") or ""


if __name__ == "__main__":
    sys.path[:] = prefer_installed(sys.path)
    from holdfast.cli.main import main

    sys.exit(main(arguments(sys.argv[1:], _submitted_master())))
