"""One judge for `verify`, smoke checks and chaos runs: it recomputes tables from their input.

It shares no code with the engine: nothing from `ingest`, `runtime`, `tasks` or `state`.  It knows
where input and output are (Topology, ids), reads Kafka through `transport`, and recomputes
everything else by itself.  Its packages import only from those after them: `oracle`, `gather`,
`checkers`, `evidence`, `recompute`, `statement`, `read`, `values`.
"""
