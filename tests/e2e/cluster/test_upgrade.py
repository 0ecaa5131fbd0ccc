"""A table of the version before goes on under this one, and back: PREVIOUS_SOURCE is its source.

Its image must be on the nodes, as PREVIOUS_IMAGE (`holdfast:previous`).  These tests come last:
they take the place of the table that the others share.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster import table
from tests.e2e.cluster.conftest import clear
from tests.e2e.cluster.kube import BOOTSTRAP, IMAGE, ROOT, helm, objects
from tests.e2e.cluster.table import Burst, Watch

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1_200)]

PREVIOUS = os.environ.get("PREVIOUS_SOURCE", "")
PREVIOUS_IMAGE = os.environ.get("PREVIOUS_IMAGE", "holdfast:previous")
_LONG_S = 240.0


@pytest.fixture(scope="module")
def release(cli_pod: str) -> Iterator[str]:
    """The table, installed with chart and image of the version before."""
    if not PREVIOUS:
        pytest.skip("PREVIOUS_SOURCE does not say where the version before is")
    clear()
    installed = helm(
        *("install", table.NAME, str(Path(PREVIOUS) / "helm/holdfast"), "--wait"),
        *("--timeout", "5m"),
        values={
            "sql": table.SQL,
            "image": dict(zip(("repository", "tag"), PREVIOUS_IMAGE.split(":"), strict=True)),
            "kafka": {"bootstrapServers": BOOTSTRAP},
            "executor": {"volume": {"size": "1Gi"}},
            "properties": {"state.partitions": table.PARTITIONS},
        },
    )
    assert installed.returncode == 0, installed.stderr
    yield table.NAME
    clear()


@pytest.fixture
def seen(release: str) -> Iterator[Watch]:
    watching = Watch()
    yield watching
    watching.stop()


def _images() -> set[str]:
    pods = objects("pods", "-l", f"app.kubernetes.io/instance={table.NAME}")
    return {c["image"] for pod in pods for c in pod["spec"]["containers"]}


def _exact(watch: Watch, records: int) -> None:
    watch.until_level(_LONG_S)
    report = table.verdict()
    assert report["verdict"] == "valid", report
    judged = {t["name"]: t["input_records"] for t in report["tables"]}
    assert judged == {"SOLD": records, "BIG_SALES": records}


def test_state_goes_on_in_the_next_version_and_back(seen: Watch, times: dict[str, float]) -> None:
    """Under load, each way with a volume that the other version has written."""
    first = Burst(seed=41, count=6_000, rate=1_000)
    first.finish()
    seen.until_level(_LONG_S)
    assert all(image.endswith(PREVIOUS_IMAGE) for image in _images()), _images()

    chart, tag = str(ROOT / "helm/holdfast"), IMAGE.split(":")[1]
    load, moment = Burst(seed=42, count=18_000, rate=300), time.time()
    done = helm(
        *("upgrade", table.NAME, chart, "--reset-then-reuse-values", "--wait", "--timeout", "5m"),
        *("--set", f"image.tag={tag}"),
    )
    assert done.returncode == 0, done.stderr
    load.finish()
    _exact(seen, first.count + load.count)
    assert all(image.endswith(IMAGE) for image in _images()), _images()
    times["upgrade from the version before, longest time without a commit"] = seen.silence(moment)

    more, moment = Burst(seed=43, count=18_000, rate=300), time.time()
    back = helm("rollback", table.NAME, "--wait", "--timeout", "5m")
    assert back.returncode == 0, back.stderr
    more.finish()
    seen.until_level(_LONG_S)
    times["rollback to it, longest time without a commit"] = seen.silence(moment)
    assert all(image.endswith(PREVIOUS_IMAGE) for image in _images()), _images()
    _exact(seen, first.count + load.count + more.count)
