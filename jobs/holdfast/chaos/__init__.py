"""The proof: break the job from outside, then judge it from outside.

The judging modules (`oracle` and what it imports here) share no code with the engine: nothing
from `ingest`, `runtime`, `tasks` or `state`.  They know where input and output lie (Topology,
ids), read Kafka through `transport`, and recompute everything else by themselves.
"""
