"""The steps of the DAGs: the commands of `holdfast` that each runs, and their arguments.

A step is a bash script that takes the arguments as "$@", so user input is never part of a script.
It finds the executable in $COMMAND, the chart's values in $CHART_VALUES, and writes the data for
the next steps as JSON to $OUTCOME.  Exit status 2 means refused, 4 that the plan no longer fits;
for a smoke check, that the table works but leaves out too much of its input.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from holdfast_airflow.request import Request

__all__ = [
    "APPLY",
    "BASELINE",
    "CHECK",
    "DEPLOY",
    "HEAL",
    "LOOK",
    "NEMESIS",
    "PLAN",
    "PLAN_RESCALE",
    "PRECHECK",
    "QUIESCE",
    "REPAIR",
    "REPORT",
    "RESCALE",
    "ROLL_BACK",
    "SMOKE",
    "SURVEY",
    "TOPICS",
    "UNDEPLOY",
    "VERIFY",
    "VERIFY_COMPACTION",
    "WORKLOAD",
    "Step",
]

_REFUSED, _CHANGED, _NO_PROGRAM, _STOPPED = 2, 4, (126, 127), 143
# Helm needs time to undo what it began, and so do temporary settings of topics.
_LONG_GRACE_S = 120
_DEPLOYER, _BREAKER, _PLAIN = "holdfast-deployer", "holdfast-chaos", "holdfast-task"


@dataclass(frozen=True)
class Step:
    """One task of a DAG.

    Args:
        name: for people and pods.
        script: bash; see the module.
        arguments: the script's arguments.
        deployer: whether it runs helm, and so needs the right to change the cluster.
        breaker: whether it looks at, breaks or heals the pods of a job.
        asker: whether it asks query servers.
        once: whether every failure of the script is final, not only a refusal.
        grace_s: termination grace period of its pod.
    """

    name: str
    script: str
    arguments: Callable[[Request], list[str]]
    deployer: bool = False
    breaker: bool = False
    asker: bool = False
    once: bool = False
    grace_s: int = 15

    @property
    def service_account(self) -> str:
        """The service account of its pod."""
        if self.breaker:
            return _BREAKER
        return _DEPLOYER if self.deployer else _PLAIN

    @property
    def token(self) -> bool:
        """Whether its pod may talk to Kubernetes."""
        return self.deployer or self.breaker

    def final(self, exit_status: int) -> bool:
        """Whether a retry would be useless."""
        if exit_status == _STOPPED:  # it ended with its worker, and has undone what it began
            return False
        return self.once or exit_status in {_REFUSED, _CHANGED, *_NO_PROGRAM}


# On an interrupt `holdfast` has helm undo what it began, if it is given the time; a background
# process gets interrupts only in its own process group (set -m).
_PRELUDE = """set -euo pipefail
child=
trap '[ -z "$child" ] || { kill -INT "$child"; wait "$child"; } || true; exit 143' TERM
run() { set -m; "$COMMAND" "$@" & child=$!; set +m; wait "$child"; }
"""

CHECK = Step(
    "check",
    _PRELUDE + 'run explain "$@"\nrun check "$@" --json > "$OUTCOME"\ncat "$OUTCOME"\n',
    Request.statement_arguments,
)
TOPICS = Step(
    "topics",
    _PRELUDE + 'run topics "$@" --json > "$OUTCOME"\ncat "$OUTCOME"\n',
    Request.statement_arguments,
)
# It restores the old revision by itself if the new one does not become ready.
DEPLOY = Step(
    "deploy",
    _PRELUDE
    + 'if [ -n "$CHART_VALUES" ]; then\n'
    + "  values=$(mktemp)\n"
    + '  printf %s "$CHART_VALUES" > "$values"\n'
    + '  set -- "$@" --values "$values"\n'
    + "fi\n"
    + 'run deploy "$@" --json > "$OUTCOME"\ncat "$OUTCOME"\n',
    Request.deploy_arguments,
    deployer=True,
    grace_s=_LONG_GRACE_S,
    once=True,
)
# A working table is not rolled back for leaving out input: the task `left_out` fails instead.
SMOKE = Step(
    "smoke",
    _PRELUDE
    + 'status=0\nrun smoke "$@" --json > "$OUTCOME" || status=$?\ncat "$OUTCOME"\n'
    + 'case $status in 0|4) ;; *) exit "$status" ;; esac\n',
    Request.smoke_arguments,
    asker=True,
)
# A retry would go back two revisions.
ROLL_BACK = Step(
    "rollback",
    _PRELUDE + 'run rollback "$@" --json > "$OUTCOME"\ncat "$OUTCOME"\n',
    Request.rollback_arguments,
    deployer=True,
    grace_s=_LONG_GRACE_S,
    once=True,
)
UNDEPLOY = Step(
    "undeploy",
    _PRELUDE + 'run undeploy "$@" --json > "$OUTCOME"\ncat "$OUTCOME"\n',
    Request.undeploy_arguments,
    deployer=True,
    grace_s=_LONG_GRACE_S,
)
LOOK = Step(
    "look",
    _PRELUDE + 'run status "$@" --json > "$OUTCOME"\ncat "$OUTCOME"\n',
    Request.place_arguments,
    deployer=True,
)
# The first call is for the log.
PLAN_RESCALE = Step(
    "plan",
    _PRELUDE + 'run rescale "$@" --dry-run\nrun rescale "$@" --dry-run --json > "$OUTCOME"\n',
    Request.rescale_arguments,
)
# An order that is sent twice is carried out once: the query has that number then.
RESCALE = Step(
    "rescale",
    _PRELUDE + 'run rescale "$@" --json > "$OUTCOME"\ncat "$OUTCOME"\n',
    Request.rescale_arguments,
)


def _chaos(command: str, *, breaker: bool = False, once: bool = False) -> Step:
    script = f'run chaos {command} "$@" --json > "$OUTCOME"\ncat "$OUTCOME"\n'
    return Step(command, _PRELUDE + script, Request.chaos_arguments, breaker=breaker, once=once)


# Seed and schedule are for people and go to the log.  Of its JSON, which has the job's statements
# and properties, only the job's name is the outcome.
_JOB_NAME = r's/^\{"run":"[^"]*","name":"([^"]*)".*/{"ok": true, "job": "\1"}/'
PRECHECK = Step(
    "precheck",
    _PRELUDE
    + 'run chaos precheck "$@" --json > "$OUTCOME"\n'
    + f"told=$(sed -E '{_JOB_NAME}' \"$OUTCOME\")\n"
    + 'printf %s "$told" > "$OUTCOME"\ncat "$OUTCOME"\n',
    Request.precheck_arguments,
    breaker=True,
    asker=True,
    once=True,
)
BASELINE = _chaos("baseline", breaker=True)
WORKLOAD = replace(_chaos("workload"), arguments=Request.workload_arguments, asker=True)
# A retry would be a second run.
NEMESIS = _chaos("nemesis", breaker=True, once=True)
HEAL = _chaos("heal", breaker=True)
QUIESCE = _chaos("quiesce")
# Exit status 0 means valid, 1 invalid, 3 unknown; the log says why.
VERIFY = Step(
    "verify",
    _PRELUDE + 'run chaos verify "$@"\necho \'{"verdict": "valid"}\' > "$OUTCOME"\n',
    Request.chaos_arguments,
    breaker=True,
    once=True,
)
# It exits with the status of `verify`; its outcome is valid all the same.
REPORT = Step(
    "report",
    _PRELUDE
    + 'status=0\nrun chaos report "$@" --json > "$OUTCOME" || status=$?\ncat "$OUTCOME"\n'
    + 'case $status in 0|1|3) ;; *) exit "$status" ;; esac\n',
    Request.chaos_arguments,
)


def _compaction(
    command: str, arguments: Callable[[Request], list[str]], *, grace_s: int = 15
) -> Step:
    """A step of compaction: progress goes to the log, the JSON, which may be long, is the
    outcome.
    """
    script = f'run compaction {command} "$@" --json > "$OUTCOME"\n'
    return Step(command, _PRELUDE + script, arguments, grace_s=grace_s)


REPAIR = _compaction("repair", Request.repair_arguments, grace_s=_LONG_GRACE_S)
# A survey is too large for an XCom; the next steps read the file.
SURVEY = Step(
    "survey",
    _PRELUDE + 'run compaction survey "$@"\necho \'{"ok": true}\' > "$OUTCOME"\n',
    Request.survey_arguments,
)
# The first call is for the log; the second one makes the same plan.
PLAN = Step(
    "plan",
    _PRELUDE
    + 'run compaction plan "$@"\nrun compaction plan "$@" --json --markdown > "$OUTCOME"\n',
    Request.plan_arguments,
)
# It is idempotent.
APPLY = _compaction("apply", Request.apply_arguments, grace_s=_LONG_GRACE_S)
VERIFY_COMPACTION = _compaction("verify", Request.verify_arguments)
