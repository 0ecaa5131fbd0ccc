"""Values shared by every layer: ids, schemas, the Topology, the clock.  No I/O."""
