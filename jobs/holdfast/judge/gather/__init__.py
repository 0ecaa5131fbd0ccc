"""Gathers the evidence about one table or stream from its input, sink, changelog and stores."""
