"""Deployments: checks before and after a deployment, and the supervision of a deployed job.

preflight.py   what a deployment would find and create; refuses what does not fit
smoke.py       after it: commit markers and results are there
markers.py     the commit markers at the ends of changelogs
deployment.py  what both targets report: a state, a revision, a reason
local.py       target `local`: revisions and their supervisor, in a folder
supervisor.py  the process that restarts the driver when it dies
kubernetes.py  target `kubernetes`: Helm releases of the chart
"""
