"""Histories of several drivers, lost markers, topics made again and stores that changed places.

Each was found wrong once, and says in its first lines what happened.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from holdfast.errors import ChangelogLost, DataLoss
from holdfast.types.steps import Step
from tests.simulation.histories.directed import Stage, follow
from tests.simulation.histories.job import DELETE_RETENTION_MS
from tests.simulation.histories.world import RENUMBERED, REPEATED


def test_drivers_that_take_turns_in_a_batch_do_no_harm() -> None:
    """A driver stops before its commit, another one does its batch, the first one goes on."""

    def script(stage: Stage) -> None:
        a, b = stage.sides.all
        stage.write(0, 10)
        stage.until(a, Step.PRODUCED, 0)
        stage.batch(b)
        stage.batch(a)

    assert follow("totals", script, drivers=2).failure == ""


def test_a_batch_planned_before_a_topic_grew_loses_no_place_of_the_marker() -> None:
    """A driver plans a batch; the topic grows; another driver commits the new partition; the first
    one goes on and commits its own batch, which does not have it."""

    def script(stage: Stage) -> None:
        a, b = stage.sides.all
        stage.write(0, 10)
        stage.batch(a)
        stage.write(0, 10)
        stage.until(a, Step.CHECKED, 0)
        stage.moves.add_partition()
        stage.write(2, 5)
        stage.upto = {("s", 0): 10}
        stage.batch(b)
        stage.upto = {}
        stage.batch(a)

    assert follow("totals", script, drivers=2).failure == ""


def test_a_job_recovers_from_two_drivers_that_committed_different_batches() -> None:
    """State partition 0 has one driver's batch, state partition 1 the other driver's longer one."""

    def script(stage: Stage) -> None:
        a, b = stage.sides.all
        b.spark.in_order = lambda order: order.sort(reverse=True)
        stage.write(0, 10)
        stage.batch(a)
        stage.upto = {("s", 0): 10}
        stage.batch(b)
        stage.upto = {}
        stage.write(0, 6)
        stage.until(a, Step.COMMITTED, 0)
        stage.write(0, 4)
        stage.until(b, Step.COMMITTED, 1)

    assert follow("totals", script, drivers=2).failure == ""


# -- lost commit markers -----------------------------------------------------------------------


def _emptied(stage: Stage) -> None:
    for count in (10, 3):
        for partition in (0, 1):
            stage.write(partition, count)
        stage.drive()
    stage.moves.empty(0)


def _rebuilt(stage: Stage) -> None:
    state = replace(stage.settings.state, on_changelog_loss="rebuild")
    stage.settings = replace(stage.settings, state=state)
    stage.excused = REPEATED


@pytest.mark.parametrize("statement", ["totals", "filter"])
def test_one_emptied_partition_of_the_markers_is_refused(statement: str) -> None:
    """With its store gone, too, nothing but the other partitions shows that it had ever any."""

    def script(stage: Stage) -> None:
        _emptied(stage)
        stage.lose_stores()
        stage.refuse(ChangelogLost)

    assert follow(statement, script).failure == ""


@pytest.mark.parametrize("lost", [False, True], ids=["with its store", "its store lost, too"])
def test_one_emptied_changelog_partition_is_rebuilt_exactly(lost: bool) -> None:
    def script(stage: Stage) -> None:
        _rebuilt(stage)
        _emptied(stage)
        if lost:
            stage.lose_stores()

    assert follow("totals", script).failure == ""


def test_an_emptied_changelog_partition_whose_store_is_there_is_refused() -> None:
    def script(stage: Stage) -> None:
        _emptied(stage)
        stage.refuse(ChangelogLost)

    assert follow("totals", script).failure == ""


def test_a_changelog_whose_records_were_deleted_is_refused_though_the_store_has_them() -> None:
    """The store was restored to the end of the changelog: nothing that it lacks is gone."""

    def script(stage: Stage) -> None:
        stage.write(0, 10)
        stage.drive()
        stage.drive()
        stage.moves.delete_records(0)
        stage.refuse(ChangelogLost)

    assert follow("totals", script).failure == ""


def test_a_changelog_whose_records_were_deleted_under_the_job_is_refused_at_its_next_start() -> (
    None
):
    """The state task went on: the last commit marker is there, and so is its store's position."""

    def script(stage: Stage) -> None:
        a, _ = stage.sides.all
        stage.write(0, 10, keys=8)
        stage.batch(a)
        stage.moves.delete_records(0)
        stage.write(0, 1)
        stage.batch(a)
        stage.sides.stop()
        stage.refuse(ChangelogLost)

    assert follow("totals", script, drivers=2).failure == ""


def test_a_changelog_that_lost_records_is_rebuilt_once_it_is_deleted() -> None:
    """That is what its refusal says is to be done."""

    def script(stage: Stage) -> None:
        stage.write(0, 10)
        stage.drive()
        stage.moves.delete_records(0)
        with pytest.raises(ChangelogLost):
            stage.drive()
        stage.moves.delete_changelog()
        _rebuilt(stage)

    assert follow("totals", script).failure == ""


def test_a_row_that_leaves_the_table_after_a_rebuild_leaves_the_sink() -> None:
    """A lost state partition is brought as far as the others, and no further: there it has the row
    that its sink has, and the next batch takes both away."""

    def script(stage: Stage) -> None:
        _rebuilt(stage)
        _emptied(stage)
        for n in range(3):
            stage.write_at(0, f"k{n}", 0, v=-100)

    assert follow("extremes", script).failure == ""


# -- source topics -----------------------------------------------------------------------------


def _recreated(stage: Stage, count: int) -> None:
    stage.write(0, 10)
    stage.drive()
    stage.moves.recreate()
    stage.write(0, count)


def test_a_source_topic_made_again_with_fewer_records_is_data_loss() -> None:
    def script(stage: Stage) -> None:
        _recreated(stage, 4)
        stage.refuse(DataLoss)

    assert follow("totals", script).failure == ""


@pytest.mark.parametrize("statement", ["totals", "filter"])
def test_a_source_topic_made_again_with_more_records_is_data_loss(statement: str) -> None:
    def script(stage: Stage) -> None:
        _recreated(stage, 16)
        stage.refuse(DataLoss)

    assert follow(statement, script).failure == ""


@pytest.mark.parametrize("count", [4, 16])
def test_a_source_topic_made_again_is_read_from_its_start_where_loss_is_accepted(
    count: int,
) -> None:
    def script(stage: Stage) -> None:
        ingest = replace(stage.settings.ingest, fail_on_data_loss=False)
        stage.settings = replace(stage.settings, ingest=ingest)
        stage.excused = RENUMBERED
        _recreated(stage, count)

    assert follow("totals", script).failure == ""


def test_a_new_source_partition_that_has_lost_its_head_can_be_levelled() -> None:
    """The driver dies between two state partitions of the first batch with the new partition."""

    def script(stage: Stage) -> None:
        a, _ = stage.sides.all
        stage.write(0, 10)
        stage.batch(a)
        stage.moves.add_partition(start=5)
        stage.write(2, 6)
        stage.until(a, Step.COMMITTED, 0)
        stage.kill(a)

    assert follow("totals", script, drivers=2).failure == ""


# -- stores and clocks ---------------------------------------------------------------------------


def test_stores_that_changed_places_are_restored() -> None:
    def script(stage: Stage) -> None:
        for count in (10, 3):
            stage.write(0, count, keys=8)
            stage.drive()
        stage.swap_stores()

    assert follow("totals", script).failure == ""


def _with_an_old_store(stage: Stage) -> Callable[[], None]:
    """The changelog has tombstones that a store of before does not know."""
    stage.write_at(0, "k0", 0)
    stage.drive()
    bring_back = stage.old_stores()
    stage.write_at(0, "k0", 200_000)
    stage.drive()
    return bring_back


def test_an_old_copy_of_a_store_is_restored() -> None:
    def script(stage: Stage) -> None:
        _with_an_old_store(stage)()

    assert follow("windows", script).failure == ""


def test_tombstones_that_were_cleaned_while_a_store_was_away_are_not_missed() -> None:
    """delete.retention.ms is lowered and raised again while it is away."""

    def script(stage: Stage) -> None:
        bring_back = _with_an_old_store(stage)
        assert stage.moves.take_tombstones()
        bring_back()

    assert follow("windows", script).failure == ""


def test_a_clock_that_jumps_back_hides_no_tombstone() -> None:
    def script(stage: Stage) -> None:
        bring_back = _with_an_old_store(stage)
        for _ in range(2):
            stage.moves.clean()
            stage.clock.sleep(2 * DELETE_RETENTION_MS / 1000)
        stage.clock.jump(-4 * DELETE_RETENTION_MS / 1000)
        bring_back()

    assert follow("windows", script).failure == ""
