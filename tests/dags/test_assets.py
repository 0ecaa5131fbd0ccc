"""Tables are assets: a deployment tells that they are level, and other DAGs begin by that."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.bundles.manager import DagBundlesManager
from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
from airflow.models.asset import AssetEvent, AssetModel
from airflow.models.dagrun import DagRun
from airflow.sdk import Asset
from airflow.utils.session import create_session
from sqlalchemy import select

from holdfast_airflow.assets import TABLES, asset_uri

StandIn = Callable[[str], Path]
Told = dict[str, Any]
SQL = "CREATE TABLE sold AS SELECT title, COUNT(*) AS n FROM orders GROUP BY title;"
QUERY = {"sink": "sold", "statement": SQL, "internal": False, "warnings": []}
LEVEL = {"state": "running", "ready": True, "caught_up": True, "lag": 7, "rows": {"sold": 12}}
DEPLOYED = f"""
case $1 in
  status) echo '{json.dumps(LEVEL)}' ;;
  deploy) echo '{{"revision": 3}}' ;;
  smoke) echo '{json.dumps({"queries": [QUERY, {**QUERY, "sink": "step", "internal": True}]})}' ;;
  explain) ;;
  *) echo '{{"ok": true}}' ;;
esac
"""
CONSUMER = """
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Asset

with DAG("{dag}", schedule=Asset("{uri}"), is_paused_upon_creation=False):
    EmptyOperator(task_id="told")
"""


def _conf(tmp_path: Path, servers: str) -> Told:
    return {
        "target": "local", "name": "movies", "sql": SQL, "home": str(tmp_path),
        "bootstrap_servers": servers,
    }  # fmt: skip


def _run(dags_folder: Path, dag: str, conf: Told) -> DagRun:
    bag = DagBag(dags_folder / f"{dag}.py", bundle_name="dags-folder")
    found: DagRun = bag.dags[dag].test(run_conf=conf)
    return found


def _events(uri: str) -> list[Told]:
    with create_session() as session:
        of_uri = select(AssetEvent).join(AssetModel, AssetModel.id == AssetEvent.asset_id)
        found = session.scalars(of_uri.where(AssetModel.uri == uri).order_by(AssetEvent.id))
        return [dict(event.extra) for event in found]


def _subscribed(tmp_path: Path, dag: str, uri: str) -> None:
    folder = tmp_path / "consumers"
    folder.mkdir(parents=True)
    (folder / f"{dag}.py").write_text(CONSUMER.format(dag=dag, uri=uri), encoding="utf-8")
    bag = DagBag(folder, bundle_name="dags-folder")
    assert bag.import_errors == {}
    DagBundlesManager().sync_bundles_to_db()  # type: ignore[no-untyped-call]  # Airflow's own
    sync_bag_to_db(bag, "dags-folder", None)


def _scheduler_runs() -> str:
    """Lets Airflow's own scheduler look a few times; returns what it has said."""
    line = [f"{sys.prefix}/bin/airflow", "scheduler", "--num-runs", "6"]
    done = subprocess.run(
        line,
        env=dict(os.environ),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=400,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def _runs(dag: str) -> list[tuple[str, str, list[Told]]]:
    with create_session() as session:
        found = session.scalars(select(DagRun).where(DagRun.dag_id == dag))
        return [
            (str(run.run_type), str(run.state), [dict(e.extra) for e in run.consumed_asset_events])
            for run in found
        ]


def test_a_deployed_table_begins_the_dag_that_waits_for_it(
    dags_folder: Path, database: None, stand_in: StandIn, tmp_path: Path
) -> None:
    stand_in(DEPLOYED)
    uri = "holdfast://kafka.example.com/sold"
    _subscribed(tmp_path, "tells_sales", uri)
    _subscribed(tmp_path / "other", "tells_nobody", "holdfast://kafka.example.com/other")
    run = _run(dags_folder, "deploy_state_table", _conf(tmp_path, "kafka.example.com:9092,b:9"))
    assert str(run.state) == "success"
    (event,) = _events(uri)
    assert event == {
        "event": "deployed", "verdict": "level", "job": "movies", "revision": 3, "lag": 7,
        "rows": 12, "statement": SQL, "warnings": [], "run": f"deploy_state_table/{run.run_id}",
    }  # fmt: skip
    assert _events("holdfast://kafka.example.com/step") == [], "a step of a statement is no table"
    said = _scheduler_runs()
    assert _runs("tells_sales") == [("asset_triggered", "success", [event])], said
    assert _runs("tells_nobody") == []


def test_a_deployment_that_was_rolled_back_tells_nobody(
    dags_folder: Path, database: None, stand_in: StandIn, tmp_path: Path
) -> None:
    stand_in('if [ "$1" = smoke ]; then exit 2; fi' + DEPLOYED)
    run = _run(dags_folder, "deploy_state_table", _conf(tmp_path, "bad.example.com:9092"))
    assert str(run.state) == "failed"
    assert _events("holdfast://bad.example.com/sold") == []


def test_a_chaos_run_tells_its_verdict_also_a_bad_one(
    dags_folder: Path, database: None, stand_in: StandIn, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setenv("HOLDFAST_CLUSTER", "prod eu")
    tables = [{"name": "sold", "verdict": "invalid", "rows": 12}]
    report = {"verdict": "invalid", "report": "/h/report.html", "job": "movies", "tables": tables}
    stand_in(f"""
case $2 in
  precheck) echo '{{"run":"r","name":"movies"}}' ;;
  verify) exit 1 ;;
  report) echo '{json.dumps(report)}'; exit 1 ;;
  *) echo '{{"ok": true}}' ;;
esac""")
    conf = {"target": "local", "name": "movies", "home": str(tmp_path)}
    assert str(_run(dags_folder, "chaos_exactly_once", conf).state) == "failed"
    (event,) = _events("holdfast://prod%20eu/sold")
    assert (event["event"], event["verdict"], event["rows"]) == ("chaos", "invalid", 12)
    assert event["report"] == "/h/report.html"


@pytest.mark.parametrize(
    ("cluster", "table", "uri"),
    [
        ("kafka.example.com", "sold", "holdfast://kafka.example.com/sold"),
        ("a/b", "per cent%/Täg", "holdfast://a%2Fb/per%20cent%25%2FT%C3%A4g"),
    ],
)
def test_any_name_makes_a_uri_that_airflow_keeps(cluster: str, table: str, uri: str) -> None:
    assert asset_uri(cluster, table) == uri
    assert Asset(uri).uri == uri


def test_the_consumer_of_the_documentation_works(
    root: Path, tmp_path: Path, database: None
) -> None:
    page = (root / "jobs" / "docs" / "airflow.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (code,) = (block for block in blocks if "schedule=Asset" in block)
    (tmp_path / "consumer.py").write_text(code, encoding="utf-8")
    bag = DagBag(tmp_path, bundle_name="dags-folder")
    assert bag.import_errors == {}
    (dag,) = bag.dags.values()
    waits_for = dag.timetable.asset_condition
    assert isinstance(waits_for, Asset)
    assert waits_for.uri == "holdfast://kafka.example.com/MOVIE_TICKETS_SOLD"
    assert TABLES in page
