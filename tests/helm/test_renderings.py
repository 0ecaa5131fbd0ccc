"""Renderings as a GitOps tool makes them: again and again, and without a cluster to look in."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from tests.helm.conftest import CHARTS, Manifest, RenderText
from tests.helm.holdfast.examples import FULL, SETS, SQL, pods

PRODUCTION = yaml.safe_load((CHARTS / "holdfast/examples/production.yaml").read_text())
PLATFORMS: dict[str, dict[str, Any]] = {
    "default": {},
    "tls": {"kafka": {"brokers": 3, "tls": {"enabled": True, "clientCertificates": True}}},
    "kafka": {"airflow": {"enabled": False}},
    "airflow": {"kafka": {"enabled": False}, "jobs": {"bootstrapServers": "kafka:9092"}},
    "fleet": {"fleet": {"configMap": "jobs"}, "jobs": {"moreNamespaces": ["default"]}},
    "registry": {"schemaRegistry": {"enabled": True}, "kafka": {"tls": {"enabled": True}}},
}
CASES = [
    *(pytest.param("holdfast", v, id=f"holdfast-{k}") for k, v in SETS.items()),
    pytest.param("holdfast", {**PRODUCTION, "sql": SQL}, id="holdfast-production"),
    *(pytest.param("holdfast-platform", v, id=f"platform-{k}") for k, v in PLATFORMS.items()),
]
# Functions whose result is another one each time, or another one with a cluster than without.
UNSTEADY = re.compile(
    r"\b(lookup|rand[A-Z]\w*|uuidv4|shuffle|now|ago|gen(CA|PrivateKey|S\w+Cert)\w*|bcrypt|htpasswd"
    r"|encryptAES|getHostByName)\b|\.Release\.(Is\w+|Revision)|\.Capabilities\."
)


@pytest.mark.parametrize(("chart", "values"), CASES)
def test_two_renderings_are_the_same_bytes(
    render_text: RenderText, chart: str, values: dict[str, Any]
) -> None:
    first = render_text(chart, values)
    assert len(first) > 2000
    assert render_text(chart, values) == first


def test_every_values_file_of_the_charts_is_tried() -> None:
    assert {file.name for file in CHARTS.glob("*/examples/*.yaml")} == {"production.yaml"}


def _actions(text: str) -> str:
    """The actions of a template, without their texts and comments."""
    computed = "\n".join(re.findall(r"\{\{-?(?!\s*/\*).*?\}\}", text, re.DOTALL))
    return re.sub(r'"(\\.|[^"\\])*"', '""', computed)


def test_no_template_asks_the_cluster_the_clock_or_chance() -> None:
    files = [f for f in CHARTS.glob("*/templates/**/*") if f.is_file()]
    assert len(files) > 30
    found = {str(f): m.group() for f in files if (m := UNSTEADY.search(_actions(f.read_text())))}
    assert found == {}


@pytest.mark.parametrize(
    "text",
    [
        '{{- with lookup "v1" "Secret" .Release.Namespace "x" }}',
        "{{ randAlphaNum 32 | b64enc }}",
        '{{- $ca := genCA "x" 3 }}',
        '{{ now | date "2006" }}',
        "{{- if .Release.IsUpgrade }}",
        "{{ .Release.Revision }}",
        "{{ if .Capabilities.APIVersions.Has .x }}",
    ],
)
def test_the_search_finds_what_it_looks_for(text: str) -> None:
    assert UNSTEADY.search(_actions(f'a: "now"\n{{{{/* lookup */}}}}\n{{{{ "now" }}}}{text}'))
    assert not UNSTEADY.search(_actions('now: {{ .Values.now2 }} {{/* lookup */}} {{ "now" }}'))


def _claims(manifest: Manifest) -> list[dict[str, Any]]:
    templates: list[dict[str, Any]] = manifest["spec"].get("volumeClaimTemplates", [])
    return templates


@pytest.mark.parametrize(("chart", "values"), CASES)
def test_claims_are_written_as_kubernetes_keeps_them(
    render_text: RenderText, chart: str, values: dict[str, Any]
) -> None:
    """A list without keys is compared as a whole, with the type that Kubernetes adds to each."""
    for manifest in yaml.safe_load_all(render_text(chart, values)):
        if manifest and manifest["kind"] == "StatefulSet":
            for claim in _claims(manifest):
                assert (claim["apiVersion"], claim["kind"]) == ("v1", "PersistentVolumeClaim")


SCHEDULING = {
    "nodeSelector": {"disk": "fast"},
    "tolerations": [{"key": "state", "operator": "Exists", "effect": "NoSchedule"}],
    "priorityClassName": "important",
}
EVERYWHERE = {
    "holdfast": FULL,
    "holdfast-platform": {
        **dict.fromkeys(("init", "kafka", "postgresql", "airflow"), SCHEDULING),
        "schemaRegistry": {"enabled": True, **SCHEDULING},
    },
}


@pytest.mark.parametrize("chart", sorted(EVERYWHERE))
def test_every_pod_goes_where_it_is_told(render_text: RenderText, chart: str) -> None:
    """Pods of hooks, too: on nodes with taints, an install would wait for them until it fails."""
    manifests = [m for m in yaml.safe_load_all(render_text(chart, EVERYWHERE[chart])) if m]
    found = dict(pods(manifests))
    assert len(found) >= 5
    for name, pod in found.items():
        told = {field: pod["spec"].get(field) for field in SCHEDULING}
        assert told == SCHEDULING, name
