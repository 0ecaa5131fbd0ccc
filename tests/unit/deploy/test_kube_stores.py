"""Stores of a release are read by its executors, and the furthest copy of each counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import orjson
import pytest

from holdfast.chaos.targets.kubernetes.stores import release_stores
from holdfast.deploy.kubernetes.client import Executed
from holdfast.errors import HoldfastError, Refused
from holdfast.types.stores import StoreDigest
from tests.unit.deploy.fake_kube import JOB, NAME, FakeKube

OLD = StoreDigest("app", "q", 0, 1, 5, "aa", 0)
NEW = StoreDigest("app", "q", 0, 2, 9, "bb", 1)
OTHER = StoreDigest("app", "q", 1, 3, 7, "cc", 1)


def cluster(**stores: list[StoreDigest]) -> FakeKube:
    """Executors by number, as `executor_0=[…]`, with what their command prints."""
    kube = FakeKube()
    kube.add_job()

    def answer(pod: dict[str, Any], command: Sequence[str]) -> Executed:
        number = pod["metadata"]["name"][-1]
        found = stores.get(f"executor_{number}", [])
        return Executed(0, orjson.dumps([asdict(s) for s in found]).decode(), "")

    kube.answers["--json"] = answer
    return kube


def test_the_furthest_copy_of_each_store_is_the_first() -> None:
    kube = cluster(executor_0=[OLD], executor_1=[NEW, OTHER])
    assert release_stores(JOB, NAME, "app", kube) == {
        ("q", 0): [NEW, OLD],
        ("q", 1): [OTHER],
    }
    asked = {did[1] for did in kube.did if did[0] == "run"}
    assert asked == {f"{NAME}-executor-0", f"{NAME}-executor-1"}


def test_an_executor_that_cannot_read_its_stores_is_named() -> None:
    kube = cluster(executor_0=[OLD])
    kube.answers["--json"] = lambda _pod, _command: Executed(2, "", "No such command 'stores'.")
    with pytest.raises(HoldfastError, match=r"executor-0 could not be read .*No such command"):
        release_stores(JOB, NAME, "app", kube)


def test_a_release_that_is_not_there_has_no_stores() -> None:
    with pytest.raises(Refused):
        release_stores(JOB, NAME, "app", FakeKube())
