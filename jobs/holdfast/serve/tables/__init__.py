"""Tables that can be read, and how their rows are stored: by a changelog, or by their topic."""

from __future__ import annotations

from holdfast.serve.tables.base import StoredTable
from holdfast.serve.tables.changelog import ChangelogTable
from holdfast.serve.tables.found import Candidates, candidates
from holdfast.serve.tables.topic import TopicTable

__all__ = ["Candidates", "ChangelogTable", "StoredTable", "TopicTable", "candidates"]
