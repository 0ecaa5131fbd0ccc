"""Which generation of a query's state counts, and with how many state partitions."""

from __future__ import annotations

from dataclasses import dataclass, replace

from holdfast.config.settings import Settings

__all__ = ["GENERATION_0", "Layout"]


@dataclass(frozen=True)
class Layout:
    """The generation of a query's state that counts.

    No batch is committed in a generation before this record names it.

    Attributes:
        generation: see `types.ids.state_name`.
        state_partitions: P; 0: as the setting says, which holds for generation 0.
        former: earlier generations whose changelogs are kept until the rescale is confirmed.
        coming: the generation that the state is being copied into; 0: none.  Query servers follow
            it, so that they have its rows when it counts.
    """

    generation: int = 0
    state_partitions: int = 0
    former: tuple[int, ...] = ()
    coming: int = 0

    def of(self, settings: Settings) -> Settings:
        """The settings with the number of state partitions that counts."""
        if not self.state_partitions:
            return settings
        return replace(settings, state=replace(settings.state, partitions=self.state_partitions))


GENERATION_0 = Layout()
"""The layout of a query that was never rescaled."""
