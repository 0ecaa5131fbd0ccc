"""`holdfast chaos run` against a job on a secured broker that is not the run's own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

import pytest

from holdfast.chaos.faults.words import Fault, Injection, Moment
from holdfast.chaos.history.events import Kind, read_history
from holdfast.chaos.run.rights import refuse_unallowed
from holdfast.cli.statements.options import Job, Sql, load_job
from holdfast.errors import Refused
from holdfast.local.probe import HOST, free_port
from holdfast.types.acls import Operation, Part, Resource, bindings, needs_of
from holdfast.types.components import QUERY, TOPIC
from holdfast.types.ids import consumer_group
from tests.integration.security.secured_job import SecuredJob
from tests.support.servers.secured_kafka import SecuredKafka, Way

pytestmark = pytest.mark.timeout(600)

_APP = "shaken"
_SQL = """
SET 'transaction.timeout.ms' = '10000';
CREATE STREAM trades (customer STRING, amount BIGINT)
  WITH (KAFKA_TOPIC='trades', VALUE_FORMAT='JSON', PARTITIONS=2);
CREATE TABLE takings WITH (KAFKA_TOPIC='takings') AS
  SELECT customer, COUNT(*) AS n, SUM(amount) AS total FROM trades GROUP BY customer;
CREATE STREAM bargains WITH (KAFKA_TOPIC='bargains') AS
  SELECT customer, amount FROM trades WHERE amount < 50;
"""
_WHO = {
    Part.JOB: ("job", Way.SCRAM),
    Part.SERVE: ("server", Way.TOKEN),
    Part.CHAOS: ("breaker", Way.SCRAM),
}
_ASKED = ("--seed", "1", "--rounds", "3", "--rate", "100",
          "--components", "driver,executor,topic", "--faults", "kill,add-partition")  # fmt: skip
_SCHEDULE = [
    Injection(0, TOPIC, Fault.ADD_PARTITION, Moment.RANDOM),
    Injection(1, QUERY, Fault.RESCALE, Moment.RANDOM),
]


@pytest.fixture(scope="module")
def job(secured: SecuredKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredJob]:
    job = SecuredJob(secured, tmp_path_factory.mktemp(_APP), _SQL, _APP, _WHO)
    try:
        job.run(Part.JOB, "deploy", _APP, str(job.sql))
        yield job
    finally:
        subprocess.run(job.bare("undeploy", _APP), check=False, capture_output=True)
        job.close()


@pytest.fixture
def server(job: SecuredJob) -> Iterator[str]:
    """As a principal of its own: one of the deployment would come as the job."""
    address = f"{HOST}:{free_port()}"
    words = ("serve", str(job.sql), "--listen", address)
    process = subprocess.Popen(job.command(Part.SERVE, *words), stderr=subprocess.DEVNULL)
    yield f"http://{address}"
    process.terminate()
    process.wait(30)


def test_a_job_is_broken_and_judged_with_the_least_acls(job: SecuredJob, server: str) -> None:
    job.run(Part.CHAOS, "chaos", "run", _APP, "--run", "allowed", *_ASKED, "--ask", server)
    folder = job.home / "chaos" / "allowed"
    verdict = json.loads((folder / "verdict.json").read_text())
    assert verdict["verdict"] == "valid", verdict
    assert verdict["reads"][0]["count"] > 0
    assert verdict["reads"][0]["failed"] == 0
    events = [e for e in read_history(folder) if (e.source, e.what) == ("nemesis", "inject")]
    hit = [e.data["injection"] for e in events if e.kind is Kind.INVOKE]
    assert {(i["component"], i["fault"]) for i in hit} == {
        ("driver", "kill"), ("executor", "kill"), ("topic", "add-partition"),
    }  # fmt: skip
    assert [e.data["landed"] for e in events if e.kind is Kind.OK] == [True] * 3


def test_each_acl_that_is_missing_is_named_before_anything_is_broken(
    job: SecuredJob, secured: SecuredKafka
) -> None:
    asked = _loaded(job)
    refuse_unallowed(asked.settings, asked.topology, _SCHEDULE)
    for left_out in bindings(needs_of(Part.CHAOS), job.names):
        with secured.without("breaker", left_out), pytest.raises(Refused) as refused:
            refuse_unallowed(asked.settings, asked.topology, _SCHEDULE)
        name = left_out.name + ("" if left_out.prefixed else ".")
        missing = f"the principal lacks the ACL {left_out.operation} on {left_out.resource.lower()}"
        assert refused.value.cause.startswith(f"{missing} {name}"), left_out


def test_altering_a_topic_is_needed_for_a_fault_of_topics_alone(
    job: SecuredJob, secured: SecuredKafka
) -> None:
    asked = _loaded(job)
    (alter,) = (
        binding
        for binding in bindings(needs_of(Part.CHAOS), job.names)
        if binding.operation is Operation.ALTER
    )
    with secured.without("breaker", alter):
        refuse_unallowed(asked.settings, asked.topology, [])


def test_a_run_without_a_right_breaks_nothing_and_says_which(
    job: SecuredJob, secured: SecuredKafka
) -> None:
    (group,) = (
        binding
        for binding in bindings(needs_of(Part.CHAOS), job.names)
        if binding.resource is Resource.GROUP
    )
    words = ("chaos", "run", _APP, "--run", "denied", *_ASKED, "--ask", "none")
    with secured.without("breaker", group):
        ended = job.tried(Part.CHAOS, *words)
    assert ended.returncode == 2, ended.stdout + ended.stderr
    missing = f"the ACL DESCRIBE on group {consumer_group(_APP, 'ctas_takings')}"
    assert missing in ended.stderr
    assert not [e for e in read_history(job.home / "chaos" / "denied") if e.source == "nemesis"]


def _loaded(job: SecuredJob) -> Job:
    return load_job(Sql(job.sql), job.config(Part.CHAOS), (), str(job.home))
