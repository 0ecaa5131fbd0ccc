"""The parts of `holdfast sql`: the session, its output, and its input."""
