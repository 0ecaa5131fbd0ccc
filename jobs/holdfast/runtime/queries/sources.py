"""The current state of a query's source topics, for a start and before a deployment."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.config.settings import Settings
from holdfast.runtime.queries.start import SourceState
from holdfast.transport.cluster.admin import Admin

__all__ = ["source_state"]


def source_state(admin: Admin, settings: Settings, topics: Iterable[str]) -> SourceState:
    """The state of existing topics.

    Raises:
        TopicMissing: a topic does not exist.
    """
    looks = {topic: admin.look(topic) for topic in topics}
    bounds = {(t, p): found for t, look in looks.items() for p, found in look.bounds.items()}
    first = {place: low for place, (low, _) in bounds.items()}
    latest = {place: high for place, (_, high) in bounds.items()}
    return SourceState(
        latest if settings.ingest.auto_offset_reset == "latest" else first,
        first,
        {topic: look.topic_id for topic, look in looks.items()},
        settings.ingest.fail_on_data_loss,
    )
