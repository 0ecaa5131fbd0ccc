"""Query servers: standbys that follow changelogs, and what answers from them over HTTP."""
