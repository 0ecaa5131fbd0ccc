from __future__ import annotations

from holdfast.runtime.cluster import answers_of
from holdfast.runtime.jvm.spark_internals import Executor
from holdfast.tasks.plan import StoreSurvey, Whereabouts


def _survey(name: str, volume: int, host: str = "") -> StoreSurvey:
    return StoreSurvey(Whereabouts(name, volume, 1, 2, host), {})


def test_local_executors_are_known_by_their_id() -> None:
    alive = [Executor("0", "127.0.0.1"), Executor("1", "127.0.0.1")]
    first, second = _survey("1", 0), _survey("0", 1)
    assert answers_of(alive, [first, second]) == {alive[0]: second, alive[1]: first}


def test_pods_are_known_by_their_address() -> None:
    alive = [Executor("7", "10.0.0.5"), Executor("9", "10.0.0.4")]
    first, second = (
        _survey("job-executor-0", 0, "10.0.0.4"),
        _survey("job-executor-1", 1, "10.0.0.5"),
    )
    assert answers_of(alive, [first, second]) == {alive[0]: second, alive[1]: first}


def test_an_executor_that_did_not_answer_is_left_out() -> None:
    alive = [Executor("7", "10.0.0.5"), Executor("9", "10.0.0.4")]
    survey = _survey("job-executor-1", 1, "10.0.0.5")
    assert answers_of(alive, [survey]) == {alive[0]: survey}
