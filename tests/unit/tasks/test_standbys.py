"""Standbys are given up together, not one after the other."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any, cast

from holdfast.state.volume import claim
from holdfast.tasks.plan import QueryPlan
from holdfast.tasks.standbys import Standbys

WAIT_S = 20.0


def test_none_is_followed_while_another_one_ends(tmp_path: Path) -> None:
    """Otherwise each is followed once more, and 32 of them take as many rounds to give up."""
    standbys = Standbys(threaded=False)
    volume = claim(tmp_path, expected=1, wait_s=0.0)
    plan = cast("QueryPlan", cast("Any", None))  # nothing is restored here
    keys = [("t", p) for p in range(3)]
    standbys.keep(dict.fromkeys(keys, plan), {}, volume)
    first, *others = standbys._standbys.values()
    leaving = threading.Thread(target=standbys.keep, args=({}, {}, volume))
    with first.lock:  # it is in the middle of a round
        leaving.start()
        deadline = time.monotonic() + WAIT_S
        while not all(one.left for one in others) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert [one.left for one in others] == [True, True]
        assert leaving.is_alive()
    leaving.join(WAIT_S)
    assert not standbys.states()
    volume.release()
