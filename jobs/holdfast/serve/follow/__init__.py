"""Standbys: this server's stores, and the threads that keep them caught up with the changelogs."""
