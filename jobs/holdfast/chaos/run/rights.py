"""Checks before a run that its principal may do everything the run and its judge will do.

A denied operation shows later as something else: a job that seems to commit nothing, or a
verdict that stays unknown after all the faults.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from holdfast.chaos.faults.words import Injection
from holdfast.config.settings import Settings
from holdfast.errors import Refused
from holdfast.transport.cluster.admin import Admin
from holdfast.types.acls import Names, Of, Operation, Part, Resource, bindings, needs_of
from holdfast.types.components import QUERY, TOPIC
from holdfast.types.ids import changelog_topic, consumer_group, progress_topic
from holdfast.types.statements.topology import Topology

__all__ = ["refuse_unallowed"]

# Without DESCRIBE on a topic, Kafka does not report this operation; the others imply DESCRIBE.
_UNSEEN = frozenset({Operation.DESCRIBE_CONFIGS})
_ONLY_FOR = {Of.INPUT_STREAMS: TOPIC, Of.CONTROL: QUERY}


def refuse_unallowed(settings: Settings, topology: Topology, schedule: Sequence[Injection]) -> None:
    """Checks the rights of this principal on the job's topics and groups.

    Raises:
        Refused: less than the run needs.
    """
    admin, application_id = Admin(settings.client()), settings.application_id
    for query in topology.queries:  # a group without the right is refused by Kafka itself
        admin.committed(consumer_group(application_id, query.id), query.sources[0].topic)
    denied = list(_denied(admin, _wanted(application_id, topology, schedule)))
    if denied:
        raise Refused(
            f"The principal of this run may not do all that the run does to {application_id}.",
            cause=f"the principal lacks the ACL {', the ACL '.join(denied)}.",
            action="grant what it lacks, or give another principal with --config or --set; "
            "`holdfast acls --part chaos` lists what is needed.",
        )


def _wanted(
    application_id: str, topology: Topology, schedule: Sequence[Injection]
) -> Mapping[str, set[str]]:
    """Operations by topic."""
    hit = {injection.component for injection in schedule}
    spared = {of for of, component in _ONLY_FOR.items() if component not in hit}
    needs = [n for n in needs_of(Part.CHAOS) if n.of not in spared]
    own = sorted(_own_topics(application_id, topology))
    wanted: dict[str, set[str]] = {}
    for binding in bindings(needs, Names.of(topology, application_id)):
        if binding.resource is Resource.TOPIC:
            for topic in own if binding.prefixed else [binding.name]:
                wanted.setdefault(topic, set()).add(binding.operation)
    return wanted


def _own_topics(application_id: str, topology: Topology) -> set[str]:
    """The job's own topics that the run reads, whether they exist or not."""
    kept = {progress_topic(application_id, query.id) for query in topology.queries}
    kept |= {
        changelog_topic(application_id, query.id) for query in topology.queries if query.stateful
    }
    return kept | {query.sink.topic for query in topology.queries if query.sink.internal}


def _denied(admin: Admin, wanted: Mapping[str, set[str]]) -> Iterator[str]:
    for topic, operations in wanted.items():
        allowed = admin.allowed(topic)
        if allowed is None:
            continue
        denied = operations - (allowed or _UNSEEN)
        if denied:
            yield f"{' and '.join(sorted(denied))} on topic {topic}"
