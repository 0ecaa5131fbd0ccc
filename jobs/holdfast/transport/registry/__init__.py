"""Schema registries: the client of a server, and one in memory."""

from __future__ import annotations

from holdfast.transport.registry.asked_seldom import AskedSeldom
from holdfast.transport.registry.client import RegistryClient, open_registry, registry_of
from holdfast.transport.registry.memory import MemoryRegistry

__all__ = ["AskedSeldom", "MemoryRegistry", "RegistryClient", "open_registry", "registry_of"]
