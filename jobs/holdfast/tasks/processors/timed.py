"""Processes a batch with or without a watermark."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from holdfast.tasks.processors.base import (
    Changes,
    Processor,
    StoreView,
    TimedProcessor,
    Watermark,
)

__all__ = ["processed"]


def processed(
    processor: Processor,
    payload: pa.Table,
    stream_time_ms: int,
    store: StoreView,
    watermark: Watermark | None,
) -> Changes:
    """Processes a batch; the result's stream time is limited by the watermark."""
    if watermark is None:
        return processor.process(payload, stream_time_ms, store)
    if isinstance(processor, TimedProcessor):
        changes = processor.process(payload, stream_time_ms, store, watermark)
    else:
        changes = processor.process(payload, stream_time_ms, store)
    newest = max(changes.stream_time_ms, watermark.newest_ms)
    after = watermark.after(stream_time_ms, newest)
    return replace(changes, stream_time_ms=after, newest_ms=newest if newest > after else None)
