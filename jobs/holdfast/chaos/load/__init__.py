"""The load of a run: records written to the job's source topics."""
