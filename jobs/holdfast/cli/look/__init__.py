"""Commands that look into a job: its tables, its stores, its sinks."""
