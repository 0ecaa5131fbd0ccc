"""`holdfast check` and `holdfast smoke` as a person reads them."""

from __future__ import annotations

import pytest

from holdfast.cli.deployed.smoke import _show
from holdfast.cli.statements.check import as_text
from holdfast.deploy.checks.preflight import Preflight, QueryFound, TopicFound
from holdfast.deploy.checks.schemas import SchemaFound
from holdfast.deploy.checks.smoke import SmokeFound
from holdfast.types.left_out import LeftOut


def test_topics_are_grouped() -> None:
    queries = (
        QueryFound("csas_a", "A", "in", True, "f", 2, 0, 0),
        QueryFound("ctas_b", "B", "A", True, "f", 4, 4, 1_200),
    )
    topics = (
        TopicFound("in", "source", 3, True),
        TopicFound("A", "sink", 3, False),
        TopicFound("shop-dead-letter", "dead letters", 1, False),
        TopicFound("shop-a-changelog", "changelog", 2, False),
        TopicFound("B", "sink", 1, False),
        TopicFound("shop-b-changelog", "changelog", 4, False),
        TopicFound("shop-b-progress", "progress", 3, True),
    )
    schemas = (SchemaFound("A-value", None), SchemaFound("B-value", 7))
    assert as_text(Preflight("shop", "k:9092", queries, topics, schemas, ())).splitlines() == [
        "The job shop can be deployed.",
        "  query csas_a: in → A; 2 state partitions, new",
        "  query ctas_b: A → B; 4 state partitions, goes on from 1,200 records",
        "  source topic, exists: in (3 partitions)",
        "  sink topics, to be created: A (3 partitions), B (1 partition)",
        "  dead letters topic, to be created: shop-dead-letter (1 partition)",
        "  2 changelog topics, to be created: 2 or 4 partitions each",
        "  progress topic, exists: shop-b-progress (3 partitions)",
        "  schema of A-value: to be registered",
        "  schema of B-value: exists as 7",
    ]


def test_a_sample_is_no_total(capsys: pytest.CaptureFixture[str]) -> None:
    left_out = LeftOut(records=3_186, dead_letters=6)
    found = SmokeFound("csas_a", "A", 2, 144, {"key": ["k"]}, left_out=left_out)
    _show([found, SmokeFound("ctas_b", "B", 1, 1, {"key": []}, served=True)], ())
    several, one = capsys.readouterr().out.splitlines()
    assert several.startswith(
        'csas_a: 2 partitions committed; the newest 144 results can be read, the last one is {"key"'
    )
    assert "; not in A: 6 of 3,186 input records" in several
    assert "; the newest result can be read, " in one
    assert one.endswith("; query servers give it back")
