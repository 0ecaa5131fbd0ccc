"""JSON Schema: its types as Connect has them, as SQL columns and back, and the encoder."""
