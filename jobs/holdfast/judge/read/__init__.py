"""Kafka as the judge reads it: topics, records, changelogs, commit markers."""
