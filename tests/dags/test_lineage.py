"""A deployment tells OpenLineage what its job reads and writes, column by column."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.dags.lineage_consumer import Consumer

StandIn = Callable[[str], Path]
Deploy = Callable[..., str]
KAFKA = "kafka://kafka.example.com:9092"
SQL = """
CREATE STREAM orders (id INT KEY, title STRING, price DOUBLE)
    WITH (KAFKA_TOPIC='orders-in', PARTITIONS=1, VALUE_FORMAT='JSON');
CREATE TABLE titles (title STRING PRIMARY KEY, nice STRING)
    WITH (KAFKA_TOPIC='titles-in', PARTITIONS=1, VALUE_FORMAT='JSON');
CREATE STREAM named AS SELECT o.title, UCASE(t.nice) AS nice, o.price FROM orders o
    JOIN titles t ON o.title = t.title WHERE o.price > 1;
CREATE TABLE sold AS SELECT nice, COUNT(*) AS n, SUM(price) AS total FROM named GROUP BY nice;
"""
# Only what needs a cluster is a stand-in's: the lineage is what `holdfast explain` finds.
BODY = """
case $1 in
  explain) ;;
  check) shift; told=$({holdfast} explain "$@") || exit 2
         echo '{{"ok": true, "bootstrap_servers": "kafka.example.com:9092,b:1",' "${{told:1}}" ;;
  status) echo '{{"state": "running", "ready": true, "caught_up": true, "lag": 0}}' ;;
  deploy) {deploy} ;;
  *) echo '{{"ok": true}}' ;;
esac
"""
# Python imports it at its start from a folder of PYTHONPATH.  Airflow finds its providers by their
# distributions, and does not start with one whose modules are not there.
WITHOUT = """
import importlib.metadata
import sys

import importlib_metadata


def hide(found):
    return classmethod(lambda _, **of: (d for d in found(**of) if "openlineage" not in d.name))


for metadata in (importlib.metadata, importlib_metadata):
    metadata.Distribution.discover = hide(metadata.Distribution.discover)
sys.modules["openlineage"] = None
sys.modules["airflow.providers.openlineage"] = None
"""


@pytest.fixture
def deploy(root: Path, run_dag: Callable[..., str], stand_in: StandIn) -> Deploy:
    """Runs `deploy_state_table` in an Airflow with more environment; returns what it has said."""

    def run(body: str, environment: dict[str, str]) -> str:
        stand_in(BODY.format(holdfast=root / ".venv/bin/holdfast", deploy=body))
        servers = "kafka.example.com:9092,b:1"
        return run_dag("deploy_state_table", environment, sql=SQL, bootstrap_servers=servers)

    return run


def _columns(output: dict[str, Any]) -> dict[str, list[str]]:
    fields = output["facets"]["columnLineage"]["fields"]
    return {name: list(map(_told, field["inputFields"])) for name, field in fields.items()}


def _told(field: dict[str, Any]) -> str:
    assert field["namespace"] == KAFKA
    kinds = [f"{each['type']}/{each['subtype']}" for each in field["transformations"]]
    return f"{field['name']}.{field['field']} {' '.join(kinds)}"


def test_a_consumer_gets_inputs_outputs_and_columns(deploy: Deploy) -> None:
    with Consumer() as consumer:
        said = deploy("echo '{\"revision\": 3}'", consumer.environment)
    event = consumer.of_task("deploy_state_table.deploy").get("COMPLETE")
    assert event is not None, said
    assert [(each["namespace"], each["name"]) for each in event["inputs"]] == [
        (KAFKA, "orders-in"), (KAFKA, "titles-in"),
    ]  # fmt: skip
    orders = event["inputs"][0]["facets"]["schema"]["fields"]
    assert [(field["name"], field["type"]) for field in orders] == [
        ("ID", "INTEGER"), ("TITLE", "STRING"), ("PRICE", "DOUBLE"),
    ]  # fmt: skip
    named, sold = event["outputs"]
    assert (named["name"], sold["name"]) == ("NAMED", "SOLD")
    assert _columns(named) == {
        "O_TITLE": ["orders-in.TITLE DIRECT/IDENTITY"],
        "NICE": ["titles-in.NICE DIRECT/TRANSFORMATION"],
        "PRICE": ["orders-in.PRICE DIRECT/IDENTITY"],
    }
    assert list(map(_told, named["facets"]["columnLineage"]["dataset"])) == [
        "orders-in.TITLE INDIRECT/JOIN", "titles-in.TITLE INDIRECT/JOIN",
        "orders-in.PRICE INDIRECT/FILTER",
    ]  # fmt: skip
    assert _columns(sold) == {
        "NICE": ["NAMED.NICE DIRECT/IDENTITY"], "TOTAL": ["NAMED.PRICE DIRECT/AGGREGATION"],
    }  # fmt: skip
    (asset,) = sold["facets"]["symlinks"]["identifiers"]
    assert (asset["namespace"], asset["name"]) == ("holdfast://kafka.example.com", "SOLD")
    assert "CREATE TABLE sold AS" in event["job"]["facets"]["sql"]["query"]


def test_a_deployment_that_fails_tells_what_it_was_about(deploy: Deploy) -> None:
    with Consumer() as consumer:
        deploy("exit 2", consumer.environment)
    event = consumer.of_task("deploy_state_table.deploy")["FAIL"]
    assert [output["name"] for output in event["outputs"]] == ["NAMED", "SOLD"]


def test_without_the_provider_a_deployment_is_the_same(
    deploy: Deploy, dags_folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "without").mkdir()
    (tmp_path / "without" / "sitecustomize.py").write_text(WITHOUT, encoding="utf-8")
    with Consumer() as consumer:
        own = {"PYTHONPATH": f"{dags_folder}:{tmp_path / 'without'}"}
        said = deploy("echo '{\"revision\": 3}'", consumer.environment | own)
    assert "state=success" in said, said
    assert consumer.events == []
