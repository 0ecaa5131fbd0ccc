"""Query servers: standbys that follow changelogs, and the HTTP server that answers queries from
them.
"""
