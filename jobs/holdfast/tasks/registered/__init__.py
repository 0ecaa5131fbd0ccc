"""Formats with a schema: their schemas as SQL columns and back, and their encoders."""
