"""Runs of one DAG beside each other, in one Airflow: `python side_by_side.py FILE DAG CONF …`.

A process of its own that forks: threads could not run tasks side by side, and an Airflow that the
tests have used has threads, which no fork has.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

from airflow import settings
from airflow.dag_processing.bundles.manager import DagBundlesManager
from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
from airflow.sdk import DAG

_WORKED, _FAILED = 0, 1


def main(file: str, name: str, *confs: str) -> int:
    # Airflow's, without annotations, here and below.
    DagBundlesManager().sync_bundles_to_db()  # type: ignore[no-untyped-call]
    bag = DagBag(Path(file), bundle_name="dags-folder")
    sync_bag_to_db(bag, "dags-folder", None)
    children = [_forked(bag.dags[name], json.loads(conf)) for conf in confs]
    ended = [os.waitpid(child, 0)[1] for child in children]
    return _FAILED if any(ended) else _WORKED


def _forked(dag: DAG, conf: dict[str, Any]) -> int:
    child = os.fork()
    if child:
        return child
    status = _FAILED
    try:
        settings.reconfigure_orm()  # type: ignore[no-untyped-call]
        found = dag.test(run_conf=conf)
        status = _WORKED if str(found.state) == "success" else _FAILED
    finally:
        # A child never goes on with what its parent does next.
        if sys.exc_info()[0] is not None:
            traceback.print_exc()
        sys.stdout.flush()
        os._exit(status)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
