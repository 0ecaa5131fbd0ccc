"""Configuration: the registry of properties, their sources, and the typed settings."""
