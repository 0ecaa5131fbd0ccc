"""Processes in which clients' statements are planned and evaluated, and which can be killed.

    server (asyncio)            thread of a pool            worker
    await, with a deadline ──►  Workers.call ── socket ──►  parses, plans, runs DuckDB
    deadline, client gone  ──►  Interrupt.ask ── SIGKILL ─►

`fork_server` makes workers, `worker` is what runs in one, `calls` are the functions that it knows.
"""
