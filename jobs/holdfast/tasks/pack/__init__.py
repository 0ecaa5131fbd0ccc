"""The packed shuffle: partials, state keys and rows as blobs of columns."""
