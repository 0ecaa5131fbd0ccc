"""Advice for a finding that is not valid, in a sentence or two."""

from __future__ import annotations

__all__ = ["ADVICE"]

_WRONG_TABLE = (
    "The table does not match its input. Keep the topics and the run's folder; run "
    "`holdfast verify` again to rule out a reading in motion; then report it with this page: the "
    "seed repeats the schedule."
)
_OTHER_STORY = (
    "Sink and changelog tell different stories: a restore from this changelog would give another "
    "table. Keep both topics and report it."
)
_OTHER_TIMES = (
    "Readers that window this topic put its records into other windows. Keep the topic and report "
    "the times above."
)
_OTHER_ROWS = (
    "A store holds rows other than its changelog's. The next updates of its keys are wrong; delete "
    "that store's folder and the job restores it from the changelog."
)
_NOT_EXACTLY_ONCE = (
    "Something was committed twice or seen before it was committed. Keep the topics; the keys "
    "above show in the sink which offsets are at fault."
)
_RUN_NOT_AS_ASKED = (
    "This says nothing about the tables. Look at the evidence below, remove what kept the fault "
    "from landing (rights, labels, a missing hook), and run it again."
)
_MORE_LOAD = "This proves too little. Run it again with a higher --rate or more --rounds."

ADVICE = {
    "lost_keys": _WRONG_TABLE,
    "phantom_keys": _WRONG_TABLE,
    "diverged_values": _WRONG_TABLE,
    "late_records": _WRONG_TABLE,
    "late_agrees": _WRONG_TABLE,
    "dead_letters_agree": _WRONG_TABLE,
    "late_is_possible": "The job has read one topic partition far ahead of another and dropped "
    "records as late that were not. Keep the input topics and report it; a longer GRACE hides it.",
    "count_is_right": _WRONG_TABLE,
    "lost_records": _WRONG_TABLE,
    "phantom_records": _WRONG_TABLE,
    "duplicated_records": _NOT_EXACTLY_ONCE,
    "duplicated_updates": _NOT_EXACTLY_ONCE,
    "written_once": _NOT_EXACTLY_ONCE,
    "out_of_order": "Readers of a key see an older result after a newer one. Keep the topics; the "
    "records above show which offsets are at fault.",
    "undetermined_records": "Nothing is wrong, but not everything could be shown to be right: the "
    "result depends on an order that is no longer recorded. Judge sooner after the load, before "
    "the changelog is compacted.",
    "sink_history_legal": _NOT_EXACTLY_ONCE,
    "sink_times": _OTHER_TIMES,
    "stream_times": _OTHER_TIMES,
    "changelog_agrees": _OTHER_STORY,
    "changelog_rows": _OTHER_STORY,
    "elements_agree": _OTHER_STORY,
    "stores_agree": _OTHER_ROWS,
    "all_stores_agree": _OTHER_ROWS,
    "markers_agree": "A part of the job has not processed its input. See with `holdfast inspect` "
    "whether it runs; if it does, its next batch repairs it.",
    "markers_go_on": "The next start rereads records that are in the rows already, or another "
    "job writes to this changelog. Stop the job, keep its changelogs and report it.",
    "group_agrees": "Lag tools are misled by the group's offsets; the tables are not. Ahead: "
    "another consumer uses the group. Behind: they follow within seconds of the next batch.",
    "hanging_transactions": "Readers see nothing behind an open transaction. It ends after "
    "transaction.timeout.ms; if not, `kafka-transactions.sh --find-hanging` names its producer.",
    "vacuous": _MORE_LOAD,
    "vacuous_stream": _MORE_LOAD,
    "catch_up": "The job has not read its input to the end. See `holdfast status` and the driver's "
    "log, wait, and verify again; nothing may be written meanwhile.",
    "recompute": "The judge does not know this statement well enough; the other tables are judged.",
    "faults_landed": _RUN_NOT_AS_ASKED,
    "moments_met": _RUN_NOT_AS_ASKED,
    "kills_happened": "Nothing was killed. Ask for faults that kill (kill, delete-now).",
    "recovered": "The job did not come back by itself. If it has refused to go on, its reason is "
    "above, and no fault may bring it there: report it. Else see the driver's log at the time of "
    "the fault, and whether the platform had room for a new process.",
    "load_was_enough": _MORE_LOAD,
    "acked_is_there": "Kafka has lost or doubled what it had acknowledged: check acks, replication "
    "and min.insync.replicas of the input topics before looking at the job.",
    "workload_failures": "Kafka was away for longer than the workload waits. Check the brokers, or "
    "ask for shorter faults.",
    "answers_are_states": "A query server returned rows that were never committed together, or "
    "rows of another position than it reported. Keep the changelog and the servers' stores and "
    "report it.",
    "positions_go_forward": "A reader saw the table go back although it had passed its position "
    "on. Keep the run's folder and the servers' logs and report it.",
    "reads_answered": "A server was available and did not answer within half a minute, directly "
    "or through its peer. See the servers' logs at that time, and whether the machine was "
    "overloaded.",
    "enough_reads": "Too little was read for the other findings to mean much. See in the servers' "
    "logs whether they follow these tables; ask for more --rounds.",
    "operations_ended": "A process of the run was killed from outside. Run it again.",
    "phases_passed": "A step of the run failed; its reason is above. Heal, then run it again.",
}
