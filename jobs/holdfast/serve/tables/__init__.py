"""Readable tables, and how their rows are stored: in a changelog, or in their topic."""

from __future__ import annotations

from holdfast.serve.tables.base import StoredTable
from holdfast.serve.tables.changelog import ChangelogTable
from holdfast.serve.tables.found import Candidates, candidates
from holdfast.serve.tables.topic import TopicTable

__all__ = ["Candidates", "ChangelogTable", "StoredTable", "TopicTable", "candidates"]
