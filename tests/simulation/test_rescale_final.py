"""A table of final results is not copied into fewer state partitions that cannot be one."""

from __future__ import annotations

from holdfast.runtime.queries.stateful import StatefulQuery
from holdfast.types.ids import changelog_topic
from tests.simulation.histories.directed import Stage, follow
from tests.simulation.histories.job import APPLICATION


def test_windows_closed_in_some_state_partitions_only_are_refused_before_the_copy() -> None:
    def script(stage: Stage) -> None:
        (side,) = stage.sides.all
        for key, time_ms in (("a", 0), ("b", 0), ("c", 40_000), ("d", 60_000), ("e", 80_000)):
            stage.write_at(0, key, time_ms)
        stage.batch(side)
        assert side.job is not None
        run = side.job.run
        assert isinstance(run, StatefulQuery)
        assert len(set(run.stream_times())) == 2, run.stream_times()
        assert side.job.rescale(1, lambda: None) == "IncompatibleStatement"
        next_one = changelog_topic(APPLICATION, run.query.id, 1)
        assert next_one not in stage.moves.kafka.topics, "it was made, and would be copied into"

    assert follow("final", script).failure == ""
