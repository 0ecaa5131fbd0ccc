"""Evidence about one table or stream: what its input, sink, changelog and stores say."""
