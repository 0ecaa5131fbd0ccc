"""Which generation of a query's state counts, and with how many state partitions."""

from __future__ import annotations

from dataclasses import dataclass, replace

from holdfast.config.settings import Settings

__all__ = ["GENERATION_0", "Layout"]


@dataclass(frozen=True)
class Layout:
    """A generation of a query's state.

    Attributes:
        generation: see `types.ids.state_name`.
        state_partitions: P; 0: as the setting says, which holds for generation 0.
    """

    generation: int = 0
    state_partitions: int = 0

    def of(self, settings: Settings) -> Settings:
        """The settings with this number of state partitions."""
        if not self.state_partitions:
            return settings
        return replace(settings, state=replace(settings.state, partitions=self.state_partitions))


GENERATION_0 = Layout()
"""The layout of a query that was never rescaled."""
