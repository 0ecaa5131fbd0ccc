"""Administration: topics, settings, log sizes and consumer groups of a cluster."""
