"""The pages of documentation: their names, and their folder in this installation."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

import holdfast

__all__ = ["PAGES", "SOURCE", "folder"]

PAGES = {
    "your-own-data.md": "from your own topic to a table, a query, and its dead letters",
    "sql.md": "statements, your own functions, differences from ksqlDB, sessions, pause and resume",
    "statement-tests.md": "`holdfast test`: input records and expected results, ksqlDB's own cases",
    "schema-registry.md": "formats with a schema registry, and a registry on this machine",
    "serving.md": "query servers: pull and push queries, freshness, tokens, the console",
    "recovery.md": "the steps of a commit, and how a job goes on after a crash",
    "rescaling.md": "change the number of state partitions of a running query",
    "savepoints.md": "freeze a job's tables, begin other jobs with them, read them with Spark",
    "remote-state.md": "stores in a database: executors without volumes",
    "what-could-still-be-wrong.md": "every assumption, and what happens when it fails",
    "chaos.md": "break a running job, and judge it",
    "compaction.md": "survey, plan, apply, verify",
    "kubernetes.md": "the charts, a kind cluster, chaos in the cluster",
    "releases.md": "what a release consists of; notes for upgrades, by version",
    "airflow.md": "DAGs that deploy, break and compact",
    "security.md": "query servers: access control, and what is not protected",
    "security-deployment.md": "secrets, the chart, DAGs, Spark's ports",
    "kafka-acls.md": "TLS, SASL, and the rights that a job and each command need",
    "tuning.md": "every property",
    "troubleshooting.md": "look into a job; what an error means",
    "benchmarks.md": "what `make bench` and `make profile` measure",
}
"""Name -> what it is about, in the order of README's index, which says the same."""

SOURCE = "jobs/docs of Holdfast's source"
"""Where the pages are if this installation has none."""


def folder() -> Path | None:
    """The folder with the pages, beside the package or where pip installed them, or None."""
    beside = Path(holdfast.__file__).absolute().parents[1] / "docs"
    return next((path for path in (beside, _of_distribution()) if path and _has_all(path)), None)


def _of_distribution() -> Path | None:
    try:
        found = files("holdfast") or []
    except PackageNotFoundError:
        return None
    pages = (Path(str(file.locate())) for file in found if file.name in PAGES)
    return next((page.resolve().parent for page in pages), None)


def _has_all(path: Path) -> bool:
    return all((path / name).is_file() for name in PAGES)
