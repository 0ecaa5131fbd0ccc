"""The statements of a job as immutable values: their Topology with its sources and steps."""
