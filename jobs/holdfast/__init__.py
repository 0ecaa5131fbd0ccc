"""Holdfast: state tables on Spark that hold fast while pods do not."""

__version__ = "0.1.0"
