"""The report of a run: page, plots, summary, advice."""
