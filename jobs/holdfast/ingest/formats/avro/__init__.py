"""Avro, decoded a column at a time, from any writer's schema."""
