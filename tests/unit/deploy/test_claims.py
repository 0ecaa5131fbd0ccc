"""The preflight's look at volume claims, on StatefulSets as the API tells them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from holdfast.cli.in_pod import claims
from holdfast.errors import Refused, Retriable

CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Gi"}}}


def _claim(**changed: Any) -> dict[str, Any]:
    size = changed.pop("size", "10Gi")
    return {**CLAIM, "resources": {"requests": {"storage": size}}, **changed}


def _api(*templates: dict[str, Any]) -> Any:
    """An API with one StatefulSet, `movies-executor`, of the namespace `here`."""

    def ask(path: str) -> bytes | None:
        if path != "/apis/apps/v1/namespaces/here/statefulsets/movies-executor":
            return None
        specs = [{"spec": {"volumeMode": "Filesystem", **t}} for t in templates]
        return orjson.dumps({"spec": {"volumeClaimTemplates": specs} if specs else {}})

    return ask


def _wanted(claim: dict[str, Any], name: str = "movies-executor") -> list[dict[str, Any]]:
    return [{"statefulSet": name, "value": "executor.volume", "claim": claim}]


@pytest.mark.parametrize("size", ["10Gi", "10240Mi", "0.009765625Ti", "10737418240"])
def test_the_same_claim_may_be_written_in_another_way(size: str) -> None:
    claims.refuse_others(_wanted(_claim(size=size, storageClassName="")), "here", _api(CLAIM))


def test_sizes_have_all_of_kubernetes_units() -> None:
    """Kubernetes itself writes them in the largest unit that divides them."""
    for wanted, written in (("1024Ti", "1Pi"), ("2048Pi", "2Ei"), ("5000G", "5T"), ("1000P", "1E")):
        kept = _api(_claim(size=written))
        claims.refuse_others(_wanted(_claim(size=wanted)), "here", kept)


def test_a_set_that_is_not_there_may_have_any_claim() -> None:
    claims.refuse_others(_wanted(CLAIM, "movies-driver"), "here", _api(CLAIM))


@pytest.mark.parametrize(
    ("claim", "told"),
    [
        (_claim(size="20Gi"), "not 21,474,836,480 bytes"),
        (_claim(size="10G"), "not 10,000,000,000 bytes"),
        (_claim(storageClassName="fast"), "not 10,737,418,240 bytes (ReadWriteOnce, fast)"),
        (_claim(accessModes=["ReadWriteOncePod"]), "(ReadWriteOncePod, the default"),
        ({}, "not no claim"),
    ],
)  # fmt: skip
def test_another_claim_is_refused(claim: dict[str, Any], told: str) -> None:
    with pytest.raises(Refused) as refused:
        claims.refuse_others(_wanted(claim), "here", _api(CLAIM))
    assert "executor.volume: the StatefulSet movies-executor has " in refused.value.fact
    assert told in refused.value.fact
    wanted = "kubectl -n here delete statefulset movies-executor --cascade=orphan"
    assert wanted in refused.value.action


def test_a_claim_is_not_added_to_a_set_without_one() -> None:
    with pytest.raises(Refused, match="movies-executor has no claim, not 10,737,418,240 bytes"):
        claims.refuse_others(_wanted(CLAIM), "here", _api())


def test_the_command_fails_only_when_claims_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "claims.yaml"
    file.write_bytes(orjson.dumps(_wanted(_claim(size="1Gi"))))
    monkeypatch.setattr(claims, "own_namespace", lambda: "here")
    monkeypatch.setattr(claims, "from_a_pod", _api(CLAIM))
    assert claims.main(file) == 1
    assert "What to do: delete it without its pods first" in capsys.readouterr().err
    monkeypatch.setattr(claims, "from_a_pod", _api(_claim(size="1Gi")))
    assert claims.main(file) == 0

    def silent(_: str) -> bytes | None:
        raise Retriable("The API did not answer.")

    monkeypatch.setattr(claims, "from_a_pod", silent)
    assert claims.main(file) == 0
    assert "were not compared: The API did not answer." in capsys.readouterr().err
