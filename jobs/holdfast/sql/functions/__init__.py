"""The catalog of functions: signatures, result types, their text for an engine, documentation."""
