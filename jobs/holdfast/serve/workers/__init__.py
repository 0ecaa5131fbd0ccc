"""Killable processes that plan and evaluate clients' statements.

    server (asyncio)            thread of a pool            worker
    await, with a deadline ──►  Workers.call ── socket ──►  parses, plans, runs DuckDB
    deadline, client gone  ──►  Interrupt.ask ── SIGKILL ─►

`fork_server` forks workers, `worker` runs in one, `calls` holds the functions that it can call.
"""
