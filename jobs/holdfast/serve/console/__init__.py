"""The web console: a page of static files, and the JSON it is drawn from.

app.py        the ASGI application: files, JSON, reports
graph.py      a job's topology as nodes and edges
drivers.py    what the drivers of jobs say
activity.py   samples over time
runs.py       plans of compaction and verdicts of chaos runs, as their folders hold them
static/       the page: HTML, CSS and JavaScript, written by hand, loading nothing from elsewhere
"""
