"""The nemesis on Kubernetes: possible victims, their faults, and the evidence that these landed."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from holdfast.chaos.faults.target import QueryServers, Victim
from holdfast.chaos.faults.words import Fault
from holdfast.chaos.targets.kubernetes import cut_off as kube_cut_off
from holdfast.chaos.targets.kubernetes import nemesis as nemesis_kubernetes
from holdfast.chaos.targets.kubernetes import scripts as kube_scripts
from holdfast.chaos.targets.kubernetes.nemesis import KubernetesTarget
from holdfast.chaos.targets.kubernetes.places import releases
from holdfast.deploy.kubernetes.client import Executed
from holdfast.deploy.kubernetes.pods import helpers
from holdfast.errors import HoldfastError, Refused, Retriable
from holdfast.types.steps import Step
from tests.unit.deploy.fake_kube import JOB, NAME, PLATFORM, FakeKube, job_labels

_INSTANCE = "app.kubernetes.io/instance"
FROM_OUTSIDE = {Fault.DELETE, Fault.DELETE_NOW}
FROM_INSIDE = {Fault.KILL, Fault.PAUSE, Fault.SLOW}


@pytest.fixture
def kube() -> FakeKube:
    made = FakeKube()
    made.add_job()
    made.answer(kube_scripts.INIT, out="tini\n")
    made.answer(kube_scripts.READ, out="bootstrap.servers: kafka.platform.svc:9092\n")
    return made


@pytest.fixture
def target(kube: FakeKube, monkeypatch: pytest.MonkeyPatch) -> KubernetesTarget:
    monkeypatch.setattr(kube_cut_off, "_FELT_S", 0.0)
    return KubernetesTarget(JOB, NAME, PLATFORM, kube)


def _executor(target: KubernetesTarget) -> Victim:
    return target.victims("executor")[0]


def _replace(kube: FakeKube, victim: Victim) -> None:
    kube.add(JOB, victim.name, job_labels(victim.component))


def test_the_job_s_own_pods_are_victims_those_of_others_are_not(
    kube: FakeKube, target: KubernetesTarget
) -> None:
    kube.add(JOB, "other-executor-0", {**job_labels("executor"), "app.kubernetes.io/instance": "o"})
    assert [v.name for v in target.victims("executor")] == [
        "movies-executor-0",
        "movies-executor-1",
    ]
    kube.there[JOB, "movies-executor-0"]["metadata"]["deletionTimestamp"] = "now"
    assert [v.name for v in target.victims("executor")] == ["movies-executor-1"]


@pytest.mark.parametrize("component", ["broker", "scheduler", "query", "preflight", "test"])
def test_what_is_not_labelled_is_refused(
    kube: FakeKube, target: KubernetesTarget, component: str
) -> None:
    kube.add(PLATFORM, "kafka-0", {"app.kubernetes.io/component": component})
    kube.add(JOB, "movies-preflight", job_labels("preflight"))
    with pytest.raises(Refused, match=f"no {component} of movies"):
        target.victims(component)


def test_a_component_that_comes_later_is_known_by_its_label(
    kube: FakeKube, target: KubernetesTarget
) -> None:
    kube.add(JOB, "movies-query-0", job_labels("query"))
    kube.add(PLATFORM, "kafka-0", {"holdfast/chaos-target": "broker"})
    assert set(target.faults) == {"broker", "driver", "executor", "query"}
    assert target.faults["query"] == FROM_OUTSIDE | FROM_INSIDE
    assert target.faults["broker"] == FROM_OUTSIDE | FROM_INSIDE | {Fault.CUT_OFF}


def test_the_chart_s_query_servers_are_the_component_server(
    kube: FakeKube, target: KubernetesTarget
) -> None:
    kube.add(JOB, "movies-serve-0", job_labels("serve"))
    assert set(target.faults) == {"driver", "executor", "server"}
    assert [v.name for v in target.victims("server")] == ["movies-serve-0"]


def _served(kube: FakeKube, number: int, *arguments: str) -> None:
    kube.add(JOB, f"movies-serve-{number}", job_labels("serve"))["spec"] |= {
        "hostname": f"movies-serve-{number}",
        "subdomain": "movies-serve-pods",
        "containers": [{"args": ["serve", *arguments], "ports": [{"containerPort": 8088}]}],
    }


def test_query_servers_of_the_release_are_found_by_who_can_reach_them(
    kube: FakeKube, target: KubernetesTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    _served(kube, 0, "--copies=3")
    _served(kube, 1, "--copies=3", "--tls-cert=/etc/tls.crt")
    assert target.query_servers().addresses == ()
    monkeypatch.setattr(nemesis_kubernetes, "in_a_pod", lambda: True)
    addresses = (
        "http://movies-serve-0.movies-serve-pods:8088",
        "https://movies-serve-1.movies-serve-pods:8088",
    )
    assert target.query_servers() == QueryServers(addresses, copies=3)


def test_in_the_end_query_servers_are_to_be_ready_as_well(
    kube: FakeKube, target: KubernetesTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target, "job_status", lambda: {"ready": True})
    _served(kube, 0)
    assert target.recovered(())
    kube.there[JOB, "movies-serve-0"]["status"]["containerStatuses"][0]["ready"] = False
    assert not target.recovered(())
    assert target.recovered([_executor(target)]), "an executor's recovery does not wait for them"


def test_releases_are_known_by_their_drivers(kube: FakeKube) -> None:
    kube.add(JOB, "orders-driver-0", {**job_labels("driver"), _INSTANCE: "orders"})
    kube.add(JOB, "lone-executor-0", {**job_labels("executor"), _INSTANCE: "lone"})
    assert releases(kube, JOB) == [NAME, "orders"]


def test_a_driver_that_ends_with_a_refusal_again_and_again_says_why(
    kube: FakeKube, target: KubernetesTarget
) -> None:
    assert target.refusal() == ""
    words = "INFO it starts\nError: A batch overlaps.\nWhat to do: stop the other job."
    (container,) = kube.there[JOB, "movies-driver-0"]["status"]["containerStatuses"]
    container["state"] = {"waiting": {"reason": "CrashLoopBackOff"}}
    for status, reason in ((1, ""), (2, "A batch overlaps.\nWhat to do: stop the other job.")):
        container["lastState"] = {"terminated": {"exitCode": status, "message": words}}
        assert target.refusal() == reason


def test_nothing_is_done_to_a_pod_that_lost_its_label_or_is_another_by_now(
    kube: FakeKube, target: KubernetesTarget
) -> None:
    victim = _executor(target)
    kube.there[JOB, victim.name]["metadata"]["labels"]["app.kubernetes.io/instance"] = "o"
    with pytest.raises(Refused, match="not labelled"):
        target.strike(victim, Fault.DELETE_NOW)
    _replace(kube, victim)
    with pytest.raises(Retriable, match="not the one that was chosen"):
        target.strike(victim, Fault.DELETE_NOW)
    assert not kube.did


def test_only_below_an_init_is_anything_done_from_inside(
    kube: FakeKube, target: KubernetesTarget
) -> None:
    kube.answer(kube_scripts.INIT, out="java\n")
    assert target.faults["driver"] == FROM_OUTSIDE


def test_a_volume_can_be_lost_where_there_is_one(kube: FakeKube, target: KubernetesTarget) -> None:
    claim = {"name": "state", "persistentVolumeClaim": {"claimName": "state-0"}}
    kube.there[JOB, "movies-executor-0"]["spec"]["volumes"] = [claim]
    kube.claims["state-0"] = "claim-1"
    assert Fault.LOSE_VOLUME in target.faults["executor"]
    assert Fault.LOSE_VOLUME not in target.faults["driver"]
    victim = _executor(target)
    target.strike(victim, Fault.LOSE_VOLUME)
    assert kube.did[-2:] == [("delete claim", "state-0"), ("delete", victim.name, 0)]
    _replace(kube, victim)
    assert not target.landed(victim, Fault.LOSE_VOLUME).landed, "the claim is still the old one"
    kube.claims["state-0"] = "claim-2"
    assert target.landed(victim, Fault.LOSE_VOLUME).landed


def _feels_helpers(kube: FakeKube) -> None:
    """Ports are out of reach for a pod in which a helper runs that was given them."""

    def reaches(pod: dict[str, Any], command: Sequence[str]) -> Executed:
        running = [name for name, (state, _) in helpers(pod).items() if state == "running"]
        ports = [port for name in running for port in kube.helpers[name]["command"][4:]]
        return Executed(1 if command[-1] in ports else 0, "", "")

    kube.answers[kube_scripts.sh(kube_scripts.REACHES)[2]] = reaches


def test_where_neither_policies_nor_helpers_work_nobody_is_cut_off(
    kube: FakeKube, target: KubernetesTarget
) -> None:
    assert Fault.CUT_OFF not in target.faults["executor"]
    assert "not enforce NetworkPolicies" in target.notes[Fault.CUT_OFF]
    assert "violates PodSecurity" in target.notes[Fault.CUT_OFF]
    assert kube.made == {}


def test_where_policies_are_not_enforced_a_container_joins_the_pod(
    kube: FakeKube, target: KubernetesTarget
) -> None:
    kube.forbids = ""
    kube.answers[kube_scripts.BROKERS] = lambda *_: Executed(0, "kafka-0.svc:9092\nk:19092\n", "")
    _feels_helpers(kube)
    assert Fault.CUT_OFF in target.faults["executor"]
    assert "container that joins" in target.notes[Fault.CUT_OFF]
    assert kube.made == kube.helpers == {}, "trying leaves nothing"
    victim = _executor(target)
    assert "19092, felt by the pod" in target.strike(victim, Fault.CUT_OFF)
    (helper,) = kube.helpers.values()
    assert (helper["image"], helper["command"][4:]) == ("holdfast:1", ["9092", "19092"])
    assert helper["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["NET_ADMIN"]}
    assert kube.made == {}
    assert target.landed(victim, Fault.CUT_OFF).landed
    assert not target.landed(target.victims("executor")[1], Fault.CUT_OFF).landed
    target.heal(victim, Fault.CUT_OFF)
    assert not target.landed(victim, Fault.CUT_OFF).landed
    target.strike(victim, Fault.CUT_OFF)
    target.strike(victim, Fault.CUT_OFF)
    assert len(kube.helpers) == 2, "who is cut off already stays so by the one that did it"
    cut = f"{[*kube.helpers][1]} cut {victim.name} off"
    assert target.heal_all() == [cut]
    assert target.heal_all() == []


def test_a_helper_that_cannot_do_it_is_told_and_not_believed(
    kube: FakeKube, target: KubernetesTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    kube.forbids = ""
    join = kube.add_helper

    def joins_and_ends(pod: dict[str, Any], container: dict[str, Any]) -> bool:
        joined = join(pod, container)
        kube.end_helper(pod, container["name"], "Operation not permitted")
        return joined

    monkeypatch.setattr(kube, "add_helper", joins_and_ends)
    victim = _executor(target)
    with pytest.raises(HoldfastError, match="terminated, not running: Operation not permitted"):
        target.strike(victim, Fault.CUT_OFF)
    assert not target.landed(victim, Fault.CUT_OFF).landed
    kube.there.pop((JOB, victim.name))
    target.heal(victim, Fault.CUT_OFF)


_POD_NAME = "statefulset.kubernetes.io/pod-name"


def _selects(policy: dict[str, Any], pod: dict[str, Any]) -> bool:
    selector, name = policy["spec"]["podSelector"], pod["metadata"]["name"]
    labels = {**pod["metadata"]["labels"], _POD_NAME: name}
    excluded = [one["values"] for one in selector.get("matchExpressions", ())]
    return selector["matchLabels"].items() <= labels.items() and not any(
        name in names for names in excluded
    )


def _allows(rule: dict[str, Any], host: str, port: int) -> bool:
    if "to" in rule and not host.startswith(NAME):
        return False
    if "ports" not in rule:
        return True
    tcp = [one for one in rule["ports"] if one.get("protocol", "TCP") == "TCP"]
    return any(one["port"] <= port <= one.get("endPort", one["port"]) for one in tcp)


def _enforces(kube: FakeKube) -> Callable[[dict[str, Any], Sequence[str]], Executed]:
    """As Kubernetes has it: a pod may do what any policy that selects it allows."""

    def reaches(pod: dict[str, Any], command: Sequence[str]) -> Executed:
        policies = [*kube.made.values(), *kube.of_release.values()]
        ours = [each["spec"]["egress"] for each in policies if _selects(each, pod)]
        host, port = command[-2], int(command[-1])
        allowed = not ours or any(_allows(rule, host, port) for rules in ours for rule in rules)
        return Executed(0 if allowed else 1, "", "")

    kube.answers[kube_scripts.sh(kube_scripts.REACHES)[2]] = reaches
    return reaches


def _policy_of_release(component: str) -> dict[str, Any]:
    labels = {"app.kubernetes.io/component": component}
    rules = [{"to": [{"podSelector": {}}]}, {"ports": [{"port": 53, "protocol": "UDP"}]},
             {"ports": [{"port": 9092}]}]  # fmt: skip
    spec = {"podSelector": {"matchLabels": labels}, "policyTypes": ["Egress"], "egress": rules}
    return {"metadata": {"name": f"movies-{component}"}, "spec": spec}


@pytest.mark.parametrize("release_has_policies", [False, True])
def test_kafka_alone_is_out_of_reach_where_policies_are_enforced(
    kube: FakeKube, target: KubernetesTarget, *, release_has_policies: bool
) -> None:
    if release_has_policies:
        kube.of_release = {f"movies-{c}": _policy_of_release(c) for c in ("driver", "executor")}
    reaches = _enforces(kube)
    assert {Fault.CUT_OFF} <= target.faults["executor"] & target.faults["driver"]
    before = copy.deepcopy(kube.of_release)
    victim, other = target.victims("executor")
    assert not target.landed(victim, Fault.CUT_OFF).landed
    target.strike(victim, Fault.CUT_OFF)
    target.strike(other, Fault.CUT_OFF)
    target.heal(other, Fault.CUT_OFF)
    assert target.landed(victim, Fault.CUT_OFF).landed
    assert not target.landed(other, Fault.CUT_OFF).landed
    (policy,) = kube.made.values()
    assert policy["spec"]["podSelector"]["matchLabels"] == {_POD_NAME: victim.name}
    pod = kube.there[JOB, victim.name]
    assert reaches(pod, ["movies-driver", "8090"]).status == 0
    opened = reaches(pod, ["elsewhere", "9091"]).status == 0
    assert opened is not release_has_policies, "a cut opens nothing that the release does not"
    assert target.heal_all() == ["NetworkPolicy holdfast-chaos-movies-executor-0"]
    assert not target.landed(victim, Fault.CUT_OFF).landed
    for policy in kube.of_release.values():
        assert policy["spec"]["podSelector"].pop("matchExpressions", []) == []
    for policy in before.values():
        policy["spec"]["podSelector"].pop("matchExpressions", None)
    assert kube.of_release == before


def test_a_deletion_is_believed_when_the_pod_is_gone_or_bound_to_go(
    kube: FakeKube, target: KubernetesTarget
) -> None:
    victim = _executor(target)
    assert "grace of 10 s" in target.strike(victim, Fault.DELETE)
    assert not target.landed(victim, Fault.DELETE).landed, "nothing shows it"
    kube.there[JOB, victim.name]["metadata"]["deletionTimestamp"] = "now"
    assert target.landed(victim, Fault.DELETE).landed
    assert not target.landed(victim, Fault.DELETE_NOW).landed, "grace 0 leaves nothing to wait for"
    assert not target.recovered([victim])
    _replace(kube, victim)
    assert target.landed(victim, Fault.DELETE_NOW).landed


def test_a_kill_is_believed_when_the_process_is_gone_or_the_container_started_again(
    kube: FakeKube, target: KubernetesTarget
) -> None:
    kube.answer(kube_scripts.KILL, status=None, out="41 1000\n")
    kube.answer(kube_scripts.IS_ALIVE, status=0)
    victim = _executor(target)
    target.strike(victim, Fault.KILL)
    assert not target.landed(victim, Fault.KILL).landed
    kube.answer(kube_scripts.IS_ALIVE, status=None)
    assert not target.landed(victim, Fault.KILL).landed, "a command that was cut off says nothing"
    kube.answer(kube_scripts.IS_ALIVE, status=1)
    assert target.landed(victim, Fault.KILL).landed
    kube.answer(kube_scripts.IS_ALIVE, status=0)
    kube.there[JOB, victim.name]["status"]["containerStatuses"][0]["restartCount"] = 1
    assert target.landed(victim, Fault.KILL).landed


@pytest.mark.parametrize(
    ("processes", "landed"),
    [("7 T 1\n9 T 1\n", True), ("7 T 1\n9 S 1\n", False), ("7 T 1\n9 Z 1\n", True), ("", False)],
)
def test_a_pause_is_believed_when_every_process_is_stopped(
    kube: FakeKube, target: KubernetesTarget, processes: str, landed: bool
) -> None:
    victim = _executor(target)
    target.strike(victim, Fault.PAUSE)
    kube.answer(kube_scripts.LIST, out=processes)
    assert target.landed(victim, Fault.PAUSE).landed is landed
    _replace(kube, victim)
    assert not target.landed(victim, Fault.PAUSE).landed, "another container is not stopped"


@pytest.mark.parametrize(
    ("limits", "landed"), [("70 0\n71 0\n", True), ("70 0\n71 -1\n", False), ("", False)]
)
def test_a_full_disk_is_believed_when_no_worker_can_write(
    kube: FakeKube, target: KubernetesTarget, limits: str, landed: bool
) -> None:
    victim = _executor(target)
    kube.answers[kube_scripts.LIMIT_FILES] = lambda _pod, _command: Executed(0, limits, "")
    assert target.landed(victim, Fault.DISK_FULL).landed is landed
    if not limits:
        with pytest.raises(Retriable, match="no Python worker"):
            target.strike(victim, Fault.DISK_FULL)


def test_workers_that_start_under_a_full_disk_cannot_write_either(
    kube: FakeKube, target: KubernetesTarget
) -> None:
    """The driver was deleted just before: the executor's Java and its workers start anew."""
    workers = {"70": "-1"}

    def limits(_pod: dict[str, Any], command: Sequence[str]) -> Executed:
        if command[-1] == "full":
            workers.update(dict.fromkeys(workers, "0"))
        return Executed(0, "".join(f"{pid} {limit}\n" for pid, limit in workers.items()), "")

    kube.answers[kube_scripts.LIMIT_FILES] = limits
    victim = _executor(target)
    target.strike(victim, Fault.DISK_FULL)
    workers.clear()
    assert not target.landed(victim, Fault.DISK_FULL).landed, "there is none yet"
    workers.update({"90": "-1", "91": "-1"})
    assert not target.landed(victim, Fault.DISK_FULL).landed
    assert target.landed(victim, Fault.DISK_FULL).landed


def test_what_lasts_is_taken_back_once_and_not_from_a_successor(
    kube: FakeKube, target: KubernetesTarget
) -> None:
    victim = _executor(target)
    target.heal(victim, Fault.PAUSE)
    assert kube.did.pop() == ("run", victim.name)
    _replace(kube, victim)
    target.heal(victim, Fault.PAUSE)
    assert not kube.did


def test_what_any_nemesis_left_is_found_by_what_it_did(
    kube: FakeKube, target: KubernetesTarget
) -> None:
    kube.answer(kube_scripts.CONTINUE, out="7\n9\n")
    kube.answer(kube_scripts.SPEED_UP, out="30\n")
    found = target.heal_all()
    assert found[:2] == [
        "movies-driver-0 was slowed down",
        "2 processes of movies-driver-0 were stopped",
    ]
    assert len(found) == 6


def test_a_namespace_is_one_for_development_by_its_label(
    kube: FakeKube, target: KubernetesTarget
) -> None:
    assert not target.is_dev_namespace()
    kube.labels = {"holdfast/environment": "production"}
    assert not target.is_dev_namespace()
    kube.labels = {"holdfast/environment": "dev"}
    assert target.is_dev_namespace()


def test_an_order_reaches_pods_that_come_after_it(kube: FakeKube, target: KubernetesTarget) -> None:
    hook = target._hook
    hook.order("3", Step.RESTORING, 9.0)
    given = [did for did in kube.did if len(did) == 4]
    assert [did[1:3] for did in given] == [("movies-executor-0", "3"), ("movies-executor-1", "3")]
    assert '"step":"RESTORING"' in str(given[0][3])
    _replace(kube, _executor(target))
    kube.did.clear()
    assert hook.held("3") is None
    assert [did[1] for did in kube.did if len(did) == 4] == ["movies-executor-0"]
    hook.release("3")
    kube.did.clear()
    _replace(kube, _executor(target))
    hook.held("3")
    assert not [did for did in kube.did if len(did) == 4], "it was taken back"
