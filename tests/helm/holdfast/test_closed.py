"""Values that are meant ill: no secret in clear, no YAML out of a text, no newline past a guard."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from holdfast.config.secrets import HIDDEN_NAMES, is_secret
from tests.helm.conftest import CHARTS, Refused, Render
from tests.helm.holdfast.examples import CHART, FULL, MINIMAL, SETS, containers, pods

SCHEMA = json.loads((CHARTS / CHART / "values.schema.json").read_text())
CANARY = "canary-hunter2"


def _with(values: dict[str, Any], path: tuple[Any, ...], value: object) -> dict[str, Any]:
    changed = copy.deepcopy(values)
    inner: Any = changed
    for key in path[:-1]:
        inner = inner[key] if isinstance(inner, list) else inner.setdefault(key, {})
    inner[path[-1]] = value
    return changed


def _guarded(value: Any, schema: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of the texts whose pattern the schema gives."""
    if "$ref" in schema:
        schema = SCHEMA["definitions"][schema["$ref"].rpartition("/")[2]]
    if isinstance(value, dict):
        for key, inner in value.items():
            of = schema.get("properties", {}).get(key) or schema.get("additionalProperties")
            if isinstance(of, dict):
                yield from _guarded(inner, of, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _guarded(inner, schema.get("items", {}), (*path, index))
    elif isinstance(value, str) and ("pattern" in schema or "enum" in schema):
        yield path


GUARDED = sorted(set(_guarded(FULL, SCHEMA)), key=str)


def test_texts_of_every_kind_are_tried() -> None:
    assert len(GUARDED) > 25
    assert {("image", "repository"), ("kafka", "tls", "existingSecret")} <= set(GUARDED)


def test_no_guard_lets_a_newline_pass(refused: Refused) -> None:
    values = FULL
    for path in GUARDED:
        value: Any = FULL
        for key in path:
            value = value[key]
        values = _with(values, path, f"{value}\n")
    said = refused(CHART, values)
    missing = [p for p in GUARDED if f"at '/{'/'.join(map(str, p))}'" not in said]
    assert missing == []


@pytest.mark.parametrize(
    "repository",
    [
        "holdfast\n          command: [sh, -c, id]\n          x",
        "holdfast #",
        "holdfast: x",
        "a b",
        "{a: b}",
        '"quoted"',
        "../holdfast",
        "holdfast@sha256:" + "0" * 64,
        "",
    ],
)
def test_an_images_repository_is_one(refused: Refused, repository: str) -> None:
    said = refused(CHART, _with(MINIMAL, ("image", "repository"), repository))
    assert "at '/image/repository'" in said


@pytest.mark.parametrize(
    "repository", ["holdfast", "localhost:5000/a/b_c", "registry.example.org/team/holdfast.x"]
)
def test_an_image_is_one_text_of_each_container(render: Render, repository: str) -> None:
    values = _with(MINIMAL, ("image",), {"repository": repository, "tag": "1"})
    images = {c["image"] for _, pod in pods(render(CHART, values)) for c in containers(pod)}
    assert images == {f"{repository}:1"}


@pytest.mark.parametrize("digest", ["sha256:" + "0" * 63, "sha256:" + "G" * 64, "md5:0", "latest"])
def test_a_digest_is_one(refused: Refused, digest: str) -> None:
    assert "at '/image/digest'" in refused(CHART, _with(MINIMAL, ("image", "digest"), digest))


@pytest.mark.parametrize("name", ["true", "null", "123"])
def test_a_name_stays_text_whatever_yaml_takes_it_for(render: Render, name: str) -> None:
    """Every value that names an object of Kubernetes; `helm lint` and the API want text."""
    values = copy.deepcopy(FULL)
    values["image"]["pullSecrets"] = [name]
    values["spark"] = {"existingSecret": name}
    values["serviceAccount"] = {"create": False, "name": name}
    values["kafka"]["tls"]["existingSecret"] = name
    values["serve"]["tls"]["existingSecret"] = name
    values["serve"]["auth"]["existingSecret"] = name
    for part in ("driver", "executor", "serve"):
        values[part]["priorityClassName"] = name
    for part in ("executor", "serve"):
        values[part]["volume"]["storageClass"] = name
    texts = [v for m in render(CHART, values) for v in _leaves(m) if str(v) == name]
    assert len(texts) > 20
    assert all(isinstance(v, str) for v in texts)
    told = yaml.safe_dump(render(CHART, values))
    assert "secretName: null" not in told
    assert "storageClassName: null" not in told


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for inner in value.values():
            yield from _leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner)
    else:
        yield value


SECRETS = (
    "sasl.password", "ssl.key.password", "ssl.keystore.password", "ssl.key.pem",
    "sasl.oauthbearer.client.secret", "sasl.oauthbearer.config", "sasl.jaas.config",
    "sasl.oauthbearer.assertion.private.key.passphrase",
    "sasl.oauthbearer.assertion.private.key.pem", "schema.registry.basic.auth.user.info",
)  # fmt: skip


@pytest.mark.parametrize("block", [("kafka", "properties"), ("properties",)])
def test_secrets_in_plain_values_are_refused_and_not_repeated(
    refused: Refused, block: tuple[str, ...]
) -> None:
    said = refused(CHART, _with(MINIMAL, block, dict.fromkeys(SECRETS, CANARY)))
    assert [name for name in SECRETS if f"invalid propertyName '{name}'" not in said] == []
    assert CANARY not in said


@pytest.mark.parametrize("part", ["driver", "executor", "serve"])
def test_a_secret_in_a_pods_environment_comes_from_a_secret(
    refused: Refused, render: Render, part: str
) -> None:
    names = "HOLDFAST_KAFKA_SASL_PASSWORD", "HOLDFAST_KAFKA_SSL_KEY_PEM", "AWS_SECRET_ACCESS_KEY"
    values = SETS["serve"]
    plain = [{"name": name, "value": CANARY} for name in names]
    said = refused(CHART, _with(values, (part, "env"), plain))
    assert [n for n in range(len(names)) if f"at '/{part}/env/{n}'" not in said] == []
    assert CANARY not in said
    ref = {"secretKeyRef": {"name": "s", "key": "k"}}
    good = [{"name": name, "valueFrom": ref} for name in names]
    assert render(
        CHART, _with(values, (part, "env"), [*good, {"name": f"{names[0]}_FILE", "value": "/f"}])
    )


def test_the_chart_and_holdfast_call_the_same_settings_secret() -> None:
    of = SCHEMA["definitions"]
    assert of["secretSetting"]["allOf"][0]["pattern"] == HIDDEN_NAMES
    variables = HIDDEN_NAMES.replace(r"\.", "_").upper()
    assert of["secretVariable"]["allOf"][0]["pattern"] == variables
    paths = re.compile(of["secretSetting"]["allOf"][1]["not"]["pattern"])
    for name in (*SECRETS, "sasl.password.file", "ssl.key.location", "ssl.ca.location"):
        in_chart = bool(re.search(HIDDEN_NAMES, name)) and not paths.search(name)
        assert in_chart == is_secret(name)
