"""The parts of `holdfast sql`: what a session knows, what it shows, and how it is typed."""
