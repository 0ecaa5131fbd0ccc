"""The recorded history of a run."""
