"""The processing of a state task's rows: one file per kind of step, behind one contract."""
