"""The values that the chart accepts, and those it refuses, with the reason."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from holdfast.config.properties import PROPERTIES
from holdfast.config.sql_properties import refused_in_sql
from tests.helm.conftest import CHARTS, Refused, Render
from tests.helm.holdfast.examples import CHART, FULL, MINIMAL, SQL, containers, named

VALUES = yaml.safe_load((CHARTS / CHART / "values.yaml").read_text())
SCHEMA = json.loads((CHARTS / CHART / "values.schema.json").read_text())
# Helm itself gives it to a chart that another one depends on.
HELMS_OWN = {"global"}


def _resolved(schema: dict[str, Any]) -> dict[str, Any]:
    ref = schema.get("$ref", "").removeprefix("#/definitions/")
    return SCHEMA["definitions"][ref] if ref else schema


def _blocks(value: Any, schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Every mapping of the values whose keys the schema fixes, with its schema."""
    schema = _resolved(schema)
    if not isinstance(value, dict) or "properties" not in schema:
        return
    yield path, value, schema
    for key, inner in value.items():
        if key in schema["properties"]:
            yield from _blocks(inner, schema["properties"][key], f"{path}.{key}")


def _with(path: str, value: object) -> dict[str, Any]:
    """The minimal values with one changed; `path` has slashes, for some keys have dots."""
    values = copy.deepcopy(MINIMAL)
    inner = values
    *way, last = path.split("/")
    for key in way:
        inner = inner.setdefault(key, {})
    inner[last] = value
    return values


def test_the_schema_has_exactly_the_values_there_are() -> None:
    blocks = list(_blocks(VALUES, SCHEMA))
    assert len(blocks) > 20
    for path, value, schema in blocks:
        if path.endswith("affinity"):
            continue  # Kubernetes' own; empty by default
        assert set(value) == set(schema["properties"]) - HELMS_OWN, path


def test_every_block_is_closed() -> None:
    def objects(schema: Any) -> Iterator[Any]:
        if isinstance(schema, dict):
            if schema.get("type") == "object":
                yield schema
            for inner in schema.values():
                yield from objects(inner)

    shaped = [s for s in objects(SCHEMA) if "properties" in s]
    assert len(shaped) > 20
    assert all(s.get("additionalProperties") is False for s in shaped)


@pytest.mark.parametrize("path", [p for p, _, _ in _blocks(VALUES, SCHEMA)])
def test_a_typo_is_refused_on_every_level(refused: Refused, path: str) -> None:
    said = refused(CHART, _with(f"{path}.mispelt".lstrip(".").replace(".", "/"), 1))
    assert "'mispelt' not allowed" in said


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("executor/replicas", 0),
        ("executor/replicas", "2"),
        ("executor/volume/size", "10"),
        ("executor/volume/accessMode", "ReadWriteMany"),
        ("executor/heapMiB", 100),
        ("driver/persistence/enabled", "yes"),
        ("driver/podLabels", {"a": 1}),
        ("driver/env", [{"nam": "A"}]),
        ("driver/resources/requests", {"memory": "1 GiB"}),
        ("image/tag", 1.0),
        ("image/pullPolicy", "Sometimes"),
        ("kafka/bootstrapServers", "kafka"),
        ("kafka/secretProperties", {"sasl.password": {"name": "only"}}),
        ("networkPolicy/kafkaPorts", [0]),
        ("networkPolicy/kafkaPorts", []),
        ("networkPolicy/snapshotPorts", []),
        ("networkPolicy/tracingPorts", ["otlp"]),
        ("networkPolicy/remoteStatePorts", ["redis"]),
        ("networkPolicy/registryPorts", [70_000]),
        ("remoteState/existingSecret", "No Name"),
        ("properties", {"state.partitions": [1]}),
        ("properties", {"state": {"partitions": 4}}),
        ("logs/level", "LOUD"),
        ("podMonitor/interval", "often"),
        ("preflight/timeoutSeconds", 1),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused(
    refused: Refused, path: str, value: object
) -> None:
    said = refused(CHART, _with(path, value))
    assert f"at '/{path}" in said


def test_a_file_of_functions_must_be_one(refused: Refused) -> None:
    assert "invalid propertyName '../evil.py'" in refused(
        CHART, _with("functions", {"../evil.py": "x"})
    )


def test_what_every_job_needs_is_asked_for(refused: Refused) -> None:
    no_sql = {"kafka": {"bootstrapServers": "k:9092"}}
    assert "sql is required: the statements of the job (--set-file sql=FILE)" in refused(
        CHART, no_sql
    )
    assert "kafka.bootstrapServers is required" in refused(CHART, {"sql": "x"})


RESERVED = {
    "application.id": "the release's name",
    "bootstrap.servers": "kafka.bootstrapServers",
    "executors": "executor.replicas",
    "executor.memory.mb": "executor.heapMiB",
    "driver.memory.mb": "driver.heapMiB",
    "home": "fixed",
    "state.dir": "fixed",
    "spark.master": "fixed",
    "spark.secret.file": "spark.existingSecret",
    "metrics.port": "8090",
    "functions": "functions",
    "serve.query.threads": "serve.query.threads",
    "serve.query.memory.bytes": "serve.query.processMemoryMiB",
}


@pytest.mark.parametrize("of", ["driver", "executor"])
def test_a_heap_has_the_bounds_of_its_property(of: str) -> None:
    heap = _resolved(SCHEMA["properties"][of]["properties"]["heapMiB"])
    allowed = PROPERTIES[f"{of}.memory.mb"].kind.allowed
    assert allowed == f"{heap['minimum']:,} to {heap['maximum']:,}"


@pytest.mark.parametrize("name", RESERVED)
def test_what_the_chart_decides_is_refused_with_the_value_that_decides_it(
    refused: Refused, name: str
) -> None:
    for given in (name, f"ksql.streams.{name}"):
        said = refused(CHART, _with(f"properties/{given}", "1"))
        assert f'"{name}" is the chart\'s own; what decides it: ' in said
        assert RESERVED[name] in said


def test_reserved_names_are_the_properties_the_chart_sets(render: Render) -> None:
    job = named(render(CHART, FULL))["ConfigMap/tried"]["data"]["properties.yaml"]
    own = {k for k in yaml.safe_load(job) if not k.startswith("kafka.")} - set(FULL["properties"])
    assert own == set(RESERVED)


@pytest.mark.parametrize("name", RESERVED)
def test_holdfast_itself_lets_no_statement_set_what_the_chart_decides(name: str) -> None:
    """The chart does not look into statements: `SET/**/'home'` is one as well."""
    assert refused_in_sql(name)
    assert refused_in_sql(f"ksql.streams.{name}")


def test_kafka_settings_belong_under_kafka(refused: Refused) -> None:
    said = refused(CHART, _with("properties/kafka.linger.ms", 5))
    assert 'belongs under kafka.properties as "linger.ms"' in said


def test_a_release_name_that_makes_too_long_names_is_refused(
    refused: Refused, render: Render
) -> None:
    assert "at most 43 fit" in refused(CHART, MINIMAL, name="m" * 44)
    kinds = {"StatefulSet", "Service", "Job", "Pod"}
    objects = [m for m in render(CHART, FULL, name="m" * 43) if m["kind"] in kinds]
    assert max(len(m["metadata"]["name"]) for m in objects) <= 63
    sets = [m["metadata"]["name"] for m in objects if m["kind"] == "StatefulSet"]
    # Its pods' label controller-revision-hash: the set's name, a dash, ten characters.
    assert max(len(name) + 11 for name in sets) == 63


def test_a_chart_that_depends_on_this_one_may_have_globals(render: Render) -> None:
    assert render(CHART, MINIMAL | {"global": {"anything": 1}})


def test_the_production_example_has_standbys_on_other_nodes(render: Render) -> None:
    values = yaml.safe_load((CHARTS / CHART / "examples" / "production.yaml").read_text())
    found = named(render(CHART, values | {"sql": SQL}, "movies"))
    properties = yaml.safe_load(found["ConfigMap/movies"]["data"]["properties.yaml"])
    assert properties["standby.replicas"] == 1
    (executor,) = containers(found["StatefulSet/movies-executor"]["spec"]["template"])
    node = next(e for e in executor["env"] if e["name"] == "HOLDFAST_NODE_NAME")
    assert node["valueFrom"]["fieldRef"]["fieldPath"] == "spec.nodeName"
