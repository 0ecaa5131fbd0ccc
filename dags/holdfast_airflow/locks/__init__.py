"""One run at a time changes a job: a lock beside the job, which names the run that has it."""
