"""COUNT and SUM(amount) per customer, title, or customer and 5 minutes, on Quix Streams.

Runs in an environment of its own.  Arguments: brokers, application id, input topic, sink topic,
query, state folder.
"""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import Any

from quixstreams import Application  # type: ignore[import-not-found]  # not in this environment
from quixstreams.dataframe.windows import Count, Sum  # type: ignore[import-not-found]


def main(brokers: str, application: str, source: str, sink: str, query: str, folder: str) -> None:
    """Runs until it is stopped."""
    app = Application(
        brokers,
        consumer_group=application,
        auto_offset_reset="earliest",
        state_dir=folder,
        processing_guarantee="exactly-once",
        loglevel="WARNING",
    )
    sales = app.dataframe(app.topic(source, key_deserializer="str", value_deserializer="json"))
    totals = app.topic(sink, key_serializer="str", value_serializer="json")
    if query == "window":
        windows = sales.tumbling_window(timedelta(minutes=5), grace_ms=timedelta(hours=24))
        sales = windows.agg(N=Count(), TOTAL=Sum("amount")).current()
        # The key of a window's result is the customer's; the window is in the value.
        sales = sales.apply(_windowed, metadata=True)
        sales.to_topic(totals, key=lambda value: value["KEY"])
    else:
        if query == "title":
            sales = sales.group_by("title")
        sales.apply(_add, stateful=True).to_topic(totals)
    app.run()


def _add(sale: dict[str, Any], state: Any) -> dict[str, int]:
    known = state.get("t", [0, 0])
    n, total = known[0] + 1, known[1] + sale["amount"]
    state.set("t", [n, total])
    return {"N": n, "TOTAL": total}


def _windowed(value: dict[str, Any], key: Any, _timestamp: int, _headers: Any) -> dict[str, Any]:
    name = key.decode() if isinstance(key, bytes) else key
    return {"N": value["N"], "TOTAL": value["TOTAL"], "KEY": f"{name}@{value['start']}"}


if __name__ == "__main__":
    main(*sys.argv[1:])
