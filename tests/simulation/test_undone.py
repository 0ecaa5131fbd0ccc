"""Each mend that is taken back is found by the history that was written for it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.simulation import test_chains as chains
from tests.simulation import test_directed as directed
from tests.simulation.broken.undone import UNDONE
from tests.unit.tasks import test_compatibility as compatibility

_FOUND = (AssertionError, pytest.fail.Exception)

SHOWN_BY: dict[str, Callable[[], None]] = {
    "marker-replaced": (
        directed.test_a_batch_planned_before_a_topic_grew_loses_no_place_of_the_marker
    ),
    "emptied-partition-accepted": lambda: (
        directed.test_one_emptied_partition_of_the_markers_is_refused("totals")
    ),
    "headless-changelog-accepted": (
        directed.test_a_changelog_whose_records_were_deleted_is_refused_though_the_store_has_them
    ),
    "levelled-too-far": (directed.test_a_row_that_leaves_the_table_after_a_rebuild_leaves_the_sink),
    "grace-unchecked": lambda: compatibility.test_when_results_are_told_stays(
        (", GRACE PERIOD 60 SECONDS", "FINAL"), (", GRACE PERIOD 0 SECONDS", "FINAL"), "grace_ms"
    ),
    "topic-ids-ignored": lambda: (
        directed.test_a_source_topic_made_again_with_more_records_is_data_loss("totals")
    ),
    "chain-without-cuts": (
        chains.test_a_query_that_reads_while_the_one_before_it_commits_loses_nothing
    ),
    "jump-tells-nothing": lambda: (
        chains.test_a_jump_of_stream_time_tells_every_window_that_it_closes(apart=True)
    ),
}


@pytest.mark.parametrize("name", UNDONE)
def test_a_mend_that_is_taken_back_is_missed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    SHOWN_BY[name]()
    with monkeypatch.context() as patch:
        UNDONE[name](patch)
        with pytest.raises(_FOUND):
            SHOWN_BY[name]()
