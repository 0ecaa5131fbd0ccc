"""Exit statuses shared by several commands."""

from __future__ import annotations

__all__ = ["WARNED"]

WARNED = 4
"""All is well, but a table leaves out more of its input than is allowed without a warning."""
