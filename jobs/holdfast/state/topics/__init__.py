"""Facts that lie in compacted topics beside the changelogs: progress, owners, orders."""
