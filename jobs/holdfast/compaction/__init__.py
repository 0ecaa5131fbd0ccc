"""Compaction of changelog topics: survey (facts) → plan (pure) → apply → verify.

facts.py     what a survey holds              survey*.py   finds it out, changing nothing
policy.py    what a person wants              planner.py   survey + policy → plan, pure
plan.py      what a plan holds                apply.py     carries it out, topic by topic
ledger.py    what must be put back            verify.py    predicted against real
put_back.py  sets and puts back               report*.py   the same for people
roll.py      closes segments                  history.py   of all runs
"""
