"""The scripts that chaos runs inside a container, for the shell that every image has.

They act on the processes below PID 1, which are the container's own, and never on processes that
exec started beside them (a probe's, or chaos's own).
"""

from __future__ import annotations

__all__ = [
    "BROKERS",
    "CONTINUE",
    "INIT",
    "IS_ALIVE",
    "KILL",
    "LIMIT_FILES",
    "LIST",
    "PROPERTIES",
    "REACHES",
    "READ",
    "REMOTE_STORES",
    "SLOW_DOWN",
    "SNAPSHOT_FILES",
    "SPEED_UP",
    "STOP",
    "module",
    "sh",
    "slow_loop",
]

_TOOLS = r"""
about() { { read -r line < "/proc/$1/stat"; } 2>/dev/null || return 1
  set -- ${line##*) }; state=$1 parent=$2 start=${20}; }
own() { q=$1; while [ "$q" -gt 1 ]; do about "$q" || return 1; q=$parent; done; [ "$q" -eq 1 ]; }
each() { for d in /proc/[0-9]*; do p=${d#/proc/}
  if [ "$p" -ne 1 ] && [ "$p" -ne $$ ] && own "$p" && about "$p"; then "$@"; fi; done; }
halt() { case $state in T|t|Z|X) ;; *) kill -STOP "$p" 2>/dev/null && again=yes ;; esac; }
freeze() { again=yes n=0; while [ $again = yes ] && [ $n -lt 20 ]; do
  again=no n=$((n + 1)); each halt; done; }
go() { if [ "$state" = T ] && kill -CONT "$p" 2>/dev/null; then echo "$p"; fi; }
slow=/tmp/holdfast-chaos-slow
"""

LIST = 'tell() { echo "$p $state $start"; }; each tell'
"""A line per process: pid, state, start time in ticks."""

STOP = "freeze"
CONTINUE = "each go"
"""Continues every stopped process; prints the pids of those that were stopped."""

INIT = "read -r name < /proc/1/comm; echo $name"
"""The name of PID 1: only below an init can processes be killed and stopped from inside."""

KILL = r"""
oldest() { [ "$parent" -eq 1 ] || return 0
  if [ -z "$main" ] || [ "$start" -lt "$since" ]; then main=$p since=$start; fi; }
main=
if { read -r main < /tmp/executor.pid; } 2>/dev/null && about "$main"; then since=$start
else main=; each oldest; fi
[ -n "$main" ] || exit 3
echo "$main $since"; kill -9 "$main"
"""
"""SIGKILL to an executor's Java, elsewhere to the first child of PID 1; prints pid and start."""

IS_ALIVE = 'about "$1" && [ "$start" = "$2" ] && [ "$state" != Z ]'
"""Is the process with this pid and start time there?"""

_LOOP = r"""
about $$; echo "$$ $start" > $slow
trap 'each go; rm -f $slow; exit' TERM
n=0; while [ $n -lt 1500 ]; do freeze; sleep 0.15; each go; sleep 0.1; n=$((n + 1)); done
rm -f $slow
"""
SLOW_DOWN = r"""
setsid sh -c "$1" >/dev/null 2>&1 </dev/null &
n=0; until [ -e $slow ] || [ $n -gt 50 ]; do sleep 0.1; n=$((n + 1)); done; cat $slow
"""
"""Stops and continues the processes several times a second, six minutes at most; prints pid and
start."""

SPEED_UP = r"""
if { read -r pid since < $slow; } 2>/dev/null && about "$pid" && [ "$start" = "$since" ]; then
  kill -TERM "$pid"; while about "$pid"; do sleep 0.1; done; echo "$pid"
fi
rm -f $slow
"""
"""Ends the loop of `SLOW_DOWN`; prints its pid if it still ran."""

REACHES = 'timeout 2 bash -c \'exec 3<>"/dev/tcp/$0/$1"\' "$1" "$2" 2>/dev/null'
"""Tests whether a connection to this host and port can be made."""

READ = 'cat "$1" 2>/dev/null'

BROKERS = "holdfast.cli.in_pod.brokers"
LIMIT_FILES = "holdfast.cli.in_pod.workers"
REMOTE_STORES = "holdfast.cli.in_pod.remote_stores"
SNAPSHOT_FILES = "holdfast.cli.in_pod.snapshots"
"""Modules of this project that run in a job's pod, with its Python."""


PROPERTIES = "/etc/holdfast/job/properties.yaml"
"""The job's properties, in the pods of its driver and its executors."""


def module(name: str, *arguments: str) -> list[str]:
    """The command that runs one of these modules, with arguments."""
    return ["python", "-m", name, *arguments]


def sh(script: str, *arguments: str) -> list[str]:
    """The command that runs one of these scripts, with arguments."""
    return ["sh", "-c", _TOOLS + script, "chaos", *arguments]


def slow_loop() -> str:
    """The script that `SLOW_DOWN` takes as its argument."""
    return _TOOLS + _LOOP
