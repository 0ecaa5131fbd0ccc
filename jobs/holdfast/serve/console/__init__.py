"""The web console: a page of static files, and the JSON that it shows.

app.py        the ASGI application: files, JSON, reports
graph.py      a job's topology as nodes and edges
events.py     server-sent events
jobs.py       all jobs and their deployments on this machine
topics.py     topics: offsets, settings, consumer groups, messages
drivers.py    status and metrics of jobs' drivers
activity.py   samples over time
runs.py       compaction plans and chaos verdicts, read from the runs' folders
static/       the page: HTML, CSS and JavaScript, written by hand, loading nothing from elsewhere
"""
