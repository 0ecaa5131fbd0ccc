"""Executors by the job's lag: what KEDA or Kubernetes gets; nobody else sets their number."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from tests.helm.conftest import Refused, Render
from tests.helm.holdfast.examples import CHART, FULL, MINIMAL, named

EXECUTOR = "StatefulSet/tried-executor"
_TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
_SCALING = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "stabilizationWindowSeconds": {"type": "integer", "minimum": 0, "maximum": 3600},
        "policies": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["type", "value", "periodSeconds"],
                "properties": {
                    "type": {"enum": ["Pods", "Percent"]},
                    "value": {"type": "integer", "minimum": 1},
                    "periodSeconds": {"type": "integer", "minimum": 1, "maximum": 1800},
                },
            },
        },
    },
}
# What the chart uses of a ScaledObject (keda.sh/v1alpha1); every other field is a mistake.
_SCALED_OBJECT = {
    "type": "object",
    "additionalProperties": False,
    "required": ["scaleTargetRef", "triggers"],
    "properties": {
        "scaleTargetRef": {
            "type": "object",
            "additionalProperties": False,
            "required": ["name"],
            "properties": {name: {"type": "string"} for name in ("apiVersion", "kind", "name")},
        },
        "minReplicaCount": {"type": "integer"},
        "maxReplicaCount": {"type": "integer"},
        "pollingInterval": {"type": "integer"},
        "advanced": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "horizontalPodAutoscalerConfig": {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {
                        "behavior": {
                            "type": "object",
                            "additionalProperties": False,
                            "properties": {"scaleDown": _SCALING, "scaleUp": _SCALING},
                        }
                    },
                }
            },
        },
        "triggers": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["type", "metadata"],
                "properties": {"type": {"type": "string"}, "metadata": _TEXTS},
            },
        },
    },
}


def _values(kind: str, **more: Any) -> dict[str, Any]:
    return MINIMAL | {"executor": {"replicas": 2, "autoscaling": {"kind": kind, **more}}}


def test_without_an_autoscaler_the_chart_sets_the_number(render: Render) -> None:
    found = named(render(CHART, FULL | {"executor": {"replicas": 3}}))
    assert found[EXECUTOR]["spec"]["replicas"] == 3
    assert not {"ScaledObject/tried-executor", "HorizontalPodAutoscaler/tried-executor"} & {*found}


@pytest.mark.parametrize("kind", ["keda", "hpa"])
def test_the_most_executors_are_no_fewer_than_the_fewest(
    render: Render, refused: Refused, kind: str
) -> None:
    """Kubernetes refuses such an autoscaler only when the rest of the release is there."""
    said = refused(CHART, _values(kind, maxReplicas=1))
    assert "executor.autoscaling.maxReplicas is 1, executor.replicas 2:" in said
    assert "Raise maxReplicas to 2 or more, or lower replicas." in said
    assert named(render(CHART, _values(kind, maxReplicas=2)))[EXECUTOR]


def test_without_an_autoscaler_its_maximum_says_nothing(render: Render) -> None:
    assert named(render(CHART, _values("none", maxReplicas=1)))[EXECUTOR]["spec"]["replicas"] == 2


@pytest.mark.parametrize("kind", ["keda", "hpa"])
def test_with_one_it_does_not(render: Render, kind: str) -> None:
    """Or each upgrade would set back what the autoscaler has decided."""
    assert "replicas" not in named(render(CHART, _values(kind)))[EXECUTOR]["spec"]


def test_keda_asks_the_driver(render: Render) -> None:
    values = _values("keda", maxReplicas=6, lagPerExecutor=5000)
    found = named(render(CHART, values))["ScaledObject/tried-executor"]
    assert found["apiVersion"] == "keda.sh/v1alpha1"
    spec = found["spec"]
    jsonschema.validate(spec, _SCALED_OBJECT)
    assert spec["scaleTargetRef"] == {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "name": "tried-executor",
    }
    assert (spec["minReplicaCount"], spec["maxReplicaCount"]) == (2, 6)
    (trigger,) = spec["triggers"]
    assert trigger == {
        "type": "metrics-api",
        "metadata": {
            "url": "http://tried-driver.somewhere.svc:8090/status",
            "valueLocation": "lag",
            "targetValue": "5000",
        },
    }


def test_kubernetes_asks_for_the_metric_of_this_job_only(render: Render) -> None:
    spec = named(render(CHART, _values("hpa")))["HorizontalPodAutoscaler/tried-executor"]["spec"]
    (metric,) = spec["metrics"]
    assert metric["external"]["metric"] == {
        "name": "holdfast_records_lag",
        "selector": {"matchLabels": {"namespace": "somewhere", "pod": "tried-driver-0"}},
    }
    assert metric["external"]["target"] == {"type": "AverageValue", "averageValue": "100000"}
    assert spec["behavior"]["scaleDown"]["stabilizationWindowSeconds"] == 600


def test_the_driver_asks_for_the_number_of_executors(render: Render) -> None:
    found = named(render(CHART, MINIMAL))
    (container,) = found["StatefulSet/tried-driver"]["spec"]["template"]["spec"]["containers"]
    assert "--executors-of=tried-executor" in container["args"]
