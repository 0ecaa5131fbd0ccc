"""Formats with a schema registry: their schemas as SQL columns and back, and their encoders."""
