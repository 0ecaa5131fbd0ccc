"""What a state task does to its rows: one file per kind of step, behind one contract."""
