"""Shared by every layer of tests: a broker, Spark, marks, Hypothesis profiles."""

from __future__ import annotations

import itertools
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, settings

from holdfast.local.broker import BrokerStatus, LocalKafka
from holdfast.local.registry import LocalRegistry, RegistryStatus

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

TESTS = Path(__file__).parent
# Processes that tests start, Spark's Python workers among them, import what the tests import.
os.environ["PYTHONPATH"] = os.pathsep.join([str(TESTS.parent / "jobs"), str(TESTS.parent)])
# In the order in which they run.  Files that take minutes are not last, so that no worker waits for
# the other one, and not first, beside the DAGs' tests.
LAYERS = (
    "unit",
    "sql_cases",
    "chaos",
    "e2e",
    "integration",
    "security",
    "dags",
    "helm",
    "contract",
    "property",
    "simulation",
)

_QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_SLOW_IS_FINE = (HealthCheck.too_slow, HealthCheck.data_too_large)
settings.register_profile(
    "default", deadline=None, print_blob=True, suppress_health_check=_SLOW_IS_FINE
)
# `HYPOTHESIS_PROFILE=ci` never depends on luck: the same examples in every run.
settings.register_profile("ci", settings.get_profile("default"), derandomize=True)
# For a night: many examples, found anew each time.
settings.register_profile("long", settings.get_profile("default"), max_examples=2_000)
# For a failure at hand: no shrinking, quick answers.
settings.register_profile(
    "debug",
    settings.get_profile("default"),
    max_examples=20,
    phases=[Phase.explicit, Phase.generate],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_configure(config: pytest.Config) -> None:
    # A run that is told to end (by `timeout`, by CI) stops its broker and Spark first.
    signal.signal(signal.SIGTERM, _interrupt)
    for layer in LAYERS:
        config.addinivalue_line("markers", f"{layer}: the tests in tests/{layer}")
    config.addinivalue_line("markers", "cluster: needs a Kubernetes cluster (make test-cluster)")
    # A seed makes a failed run repeatable, and is printed whether or not one was given.
    if config.getoption("hypothesis_seed", None) is None and not _derandomized():
        config.option.hypothesis_seed = str(int.from_bytes(os.urandom(4), "big"))


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _derandomized() -> bool:
    return settings.get_profile(settings.get_current_profile_name()).derandomize


def pytest_report_header(config: pytest.Config) -> str:
    if _derandomized():
        return "hypothesis: the same examples in every run"
    seed = config.getoption("hypothesis_seed", None)
    return f"hypothesis seed: {seed} (repeat with --hypothesis-seed={seed})"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test with the layer whose folder it is in, and put the layers in order."""
    for item in items:
        if not item.path.is_relative_to(TESTS):
            continue
        layer = item.path.relative_to(TESTS).parts[0]
        if layer not in LAYERS:
            raise pytest.UsageError(f"{item.path}: not in a layer's folder ({', '.join(LAYERS)})")
        item.add_marker(layer)
    items.sort(key=lambda item: _layer_number(item.path))


def _layer_number(path: Path) -> int:
    within = path.is_relative_to(TESTS)
    return LAYERS.index(path.relative_to(TESTS).parts[0]) if within else len(LAYERS)


@pytest.fixture(scope="session")
def kafka_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of the session's broker and registry."""
    return tmp_path_factory.mktemp("kafka")


@pytest.fixture(scope="session")
def registry(kafka: BrokerStatus, kafka_home: Path) -> Iterator[RegistryStatus]:
    """A real schema registry, its schemas in the session's broker; ask it for its `.url`."""
    local = LocalRegistry(kafka_home)
    try:
        yield local.start(port=0)
    finally:
        local.wipe()


@pytest.fixture(scope="session")
def kafka(kafka_home: Path) -> Iterator[BrokerStatus]:
    """A real single-node broker with transactions; ask it for `.bootstrap_servers`."""
    broker = LocalKafka(kafka_home)
    try:
        yield broker.start(port=0)
    finally:
        broker.wipe()


@pytest.fixture
def kafka_topic_name(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """Names no other test of this run uses: `kafka_topic_name("input")`."""
    test = re.sub(r"[^A-Za-z0-9._-]+", "-", request.node.name).strip("-")[:80]

    def make(purpose: str = "topic") -> str:
        return f"{test}-{purpose}-{next(_counter)}"

    return make


_counter = itertools.count()


@pytest.fixture(scope="session")
def spark_context() -> Iterator[SparkContext]:
    """A plain `local[2]` Spark."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark import SparkConf, SparkContext

    from holdfast.runtime.jvm.class_archive import archive_options

    conf = SparkConf().setMaster("local[2]").setAppName("holdfast-tests")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        # Many short queries: the second compiler takes more time than it gives.
        "spark.driver.extraJavaOptions": f"{_QUICK_JAVA} {archive_options()}",
    }.items():
        conf.set(name, value)
    context = SparkContext(conf=conf)
    context.setLogLevel("ERROR")
    yield context
    context.stop()


@pytest.fixture(scope="session")
def spark(spark_context: SparkContext) -> SparkSession:
    """Spark SQL, which no job uses: for tests that compare with it."""
    from pyspark.sql import SparkSession

    options: dict[str, bool | float | int | str | None] = {
        "spark.sql.ansi.enabled": "false",
        "spark.sql.caseSensitive": "true",
        "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
    }
    assert spark_context.master == "local[2]"
    return SparkSession.builder.config(map=options).getOrCreate()
