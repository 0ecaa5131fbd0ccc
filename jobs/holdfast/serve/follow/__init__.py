"""Standbys: this server's stores, and the threads that keep them level with their changelogs."""
