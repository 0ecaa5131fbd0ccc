"""The platform's init Job: the objects that it creates, and Roles that let it do just that."""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Callable
from typing import Any

import orjson
import pytest
import yaml
from cryptography import x509
from cryptography.fernet import Fernet
from cryptography.hazmat.primitives import serialization

from holdfast.cli.in_pod.create_missing import create_missing
from holdfast.errors import Refused, Retriable
from tests.helm.conftest import Manifest, Render

CHART = "holdfast-platform"
NAMESPACE, JOBS = "platform-of-tests", "jobs-of-tests"
INIT = "holdfast-platform-init"
FULL: dict[str, Any] = {"kafka": {"tls": {"enabled": True}}, "jobs": {"namespace": JOBS}}
NAMES = {
    (NAMESPACE, "secrets", "holdfast-platform"),
    (NAMESPACE, "secrets", "kafka-tls"),
    (JOBS, "secrets", "holdfast-kafka-client"),
    (JOBS, "persistentvolumeclaims", "holdfast-chaos"),
    (JOBS, "persistentvolumeclaims", "holdfast-compaction"),
}

Key = tuple[str, str, str]


class Cluster:
    """Objects in memory, behind an API that allows what the rendered Roles allow."""

    def __init__(self, manifests: list[Manifest]) -> None:
        self.there: dict[Key, dict[str, Any]] = {}
        self.meanwhile: Callable[[], None] = lambda: None
        self._roles = [
            m for m in manifests if m["kind"] == "Role" and m["metadata"]["name"] == INIT
        ]

    def ask(self, path: str, merge: Any = None, create: Any = None) -> bytes | None:
        *_, namespace, kind, name = path.split("/") if create is None else [*path.split("/"), ""]
        verb = "create" if create else "patch" if merge else "get"
        if not self._may(verb, namespace, kind, name):
            raise Refused(f"{verb} {namespace}/{kind}/{name}")
        if verb != "get":
            self.meanwhile()
        key = (namespace, kind, name or (create or {})["metadata"]["name"])
        found = self.there.get(key)
        if create:
            return self._put(key, orjson.loads(orjson.dumps(create))) if found is None else None
        if merge and found:
            if merge["metadata"]["resourceVersion"] != found["metadata"]["resourceVersion"]:
                return None
            return self._put(key, {**found, "data": {**found.get("data", {}), **merge["data"]}})
        return None if found is None else orjson.dumps(found)

    def _put(self, key: Key, value: dict[str, Any]) -> bytes:
        last = int(value["metadata"].get("resourceVersion", "0"))
        metadata = {**value["metadata"], "resourceVersion": str(last + 1)}
        self.there[key] = {**value, "metadata": metadata}
        return orjson.dumps(self.there[key])

    def _may(self, verb: str, namespace: str, kind: str, name: str) -> bool:
        rules = [r for role in self._roles if role["metadata"]["namespace"] == namespace
                 for r in role["rules"]]  # fmt: skip
        return any(
            verb in rule["verbs"]
            and kind in rule["resources"]
            and name in rule.get("resourceNames", [name])
            for rule in rules
        )


def _rendered(render: Render, values: dict[str, Any]) -> list[Manifest]:
    return render(CHART, values, namespace=NAMESPACE)


def _wanted(manifests: list[Manifest]) -> dict[str, Any]:
    (text,) = (m["data"]["wanted.yaml"] for m in manifests
               if (m["kind"], m["metadata"]["name"]) == ("ConfigMap", INIT))  # fmt: skip
    wanted: dict[str, Any] = yaml.safe_load(text)
    return wanted


@pytest.fixture(scope="module")
def manifests(render: Render) -> list[Manifest]:
    return _rendered(render, FULL)


@pytest.fixture
def cluster(manifests: list[Manifest]) -> Cluster:
    return Cluster(manifests)


def _run(cluster: Cluster, manifests: list[Manifest]) -> list[str]:
    return list(create_missing(_wanted(manifests), cluster.ask))


def _pem(cluster: Cluster, key: Key, entry: str) -> bytes:
    return base64.b64decode(cluster.there[key]["data"][entry])


def test_its_roles_suffice_for_all_that_it_creates(
    cluster: Cluster, manifests: list[Manifest]
) -> None:
    said = _run(cluster, manifests)
    assert set(cluster.there) == NAMES
    assert len(said) == len(NAMES)
    assert f"The Secret kafka-tls in {NAMESPACE} got a certificate for 3650 days." in said


def test_every_namespace_of_jobs_gets_its_claims_and_the_client_certificate(
    render: Render,
) -> None:
    jobs = {"namespace": JOBS, "moreNamespaces": ["more"]}
    manifests = _rendered(render, {**FULL, "jobs": jobs})
    cluster = Cluster(manifests)
    _run(cluster, manifests)
    more = {("more", kind, name) for where, kind, name in NAMES if where == JOBS}
    assert set(cluster.there) == NAMES | more


def test_its_roles_name_all_that_they_let_it_read(manifests: list[Manifest]) -> None:
    roles = [m for m in manifests if m["kind"] == "Role" and m["metadata"]["name"] == INIT]
    rules = [(role["metadata"]["namespace"], rule) for role in roles for rule in role["rules"]]
    named = {
        (n, k, o) for n, r in rules for k in r["resources"] for o in r.get("resourceNames", ())
    }
    assert named == NAMES
    assert {v for _, r in rules if "resourceNames" not in r for v in r["verbs"]} == {"create"}


def test_a_second_run_keeps_everything(cluster: Cluster, manifests: list[Manifest]) -> None:
    _run(cluster, manifests)
    before = orjson.dumps(list(cluster.there.values()))
    assert all(line.endswith(" is kept.") for line in _run(cluster, manifests))
    assert orjson.dumps(list(cluster.there.values())) == before


def test_a_missing_key_is_added_and_the_others_stay(
    cluster: Cluster, manifests: list[Manifest]
) -> None:
    """Someone's own database password, and a chart that has a key more."""
    _run(cluster, manifests)
    data = cluster.there[NAMESPACE, "secrets", "holdfast-platform"]["data"]
    data.pop("fernet-key")
    data["postgresql-password"] = "bXk="
    before = dict(data)
    assert f"The Secret holdfast-platform in {NAMESPACE} got fernet-key." in _run(
        cluster, manifests
    )
    after = cluster.there[NAMESPACE, "secrets", "holdfast-platform"]["data"]
    assert after.items() > before.items()


def test_every_text_that_a_pod_reads_is_there(cluster: Cluster, manifests: list[Manifest]) -> None:
    _run(cluster, manifests)
    refs = list(_secret_refs(manifests))
    assert len(refs) > 20
    for ref in refs:
        assert cluster.there[NAMESPACE, "secrets", ref["name"]]["data"][ref["key"]]
    data = cluster.there[NAMESPACE, "secrets", "holdfast-platform"]["data"]
    texts = {key: base64.b64decode(value) for key, value in data.items()}
    assert len(set(texts.values())) == len(texts)
    assert all(len(base64.urlsafe_b64decode(text)) == 32 for text in texts.values())
    Fernet(texts["fernet-key"])


def _secret_refs(value: Any) -> Any:
    if isinstance(value, dict):
        if "secretKeyRef" in value:
            yield value["secretKeyRef"]
        for inner in value.values():
            yield from _secret_refs(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _secret_refs(inner)


TLS = {
    "kafka": (NAMESPACE, "secrets", "kafka-tls"),
    "holdfast": (JOBS, "secrets", "holdfast-kafka-client"),
}


def test_broker_and_clients_have_certificates_of_one_authority(
    cluster: Cluster, manifests: list[Manifest]
) -> None:
    _run(cluster, manifests)
    assert len({_pem(cluster, key, "ca.crt") for key in TLS.values()}) == 1
    for name, key in TLS.items():
        assert cluster.there[key]["type"] == "kubernetes.io/tls"
        authority = x509.load_pem_x509_certificate(_pem(cluster, key, "ca.crt"))
        certificate = x509.load_pem_x509_certificate(_pem(cluster, key, "tls.crt"))
        certificate.verify_directly_issued_by(authority)
        assert certificate.subject.rfc4514_string() == f"CN={name}"
        private = serialization.load_pem_private_key(_pem(cluster, key, "tls.key"), None)
        assert private.public_key() == certificate.public_key()
        assert certificate.not_valid_after_utc > dt.datetime.now(dt.UTC) + dt.timedelta(days=3000)


def test_the_brokers_certificate_has_every_name_that_clients_are_sent_to(
    cluster: Cluster, manifests: list[Manifest]
) -> None:
    _run(cluster, manifests)
    certificate = x509.load_pem_x509_certificate(_pem(cluster, TLS["kafka"], "tls.crt"))
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    found = set(names.get_values_for_type(x509.DNSName))
    for host in ("kafka", "kafka-0", "kafka-1", "kafka-2"):
        assert {host, f"{host}.{NAMESPACE}.svc"} <= found


@pytest.mark.parametrize("lost", TLS.values(), ids=TLS.keys())
def test_both_certificates_are_issued_anew_when_one_is_gone(
    cluster: Cluster, manifests: list[Manifest], lost: Key
) -> None:
    """One alone would have an authority that the other does not know."""
    _run(cluster, manifests)
    before = {key: _pem(cluster, key, "tls.crt") for key in TLS.values()}
    del cluster.there[lost]
    _run(cluster, manifests)
    assert all(_pem(cluster, key, "tls.crt") != before[key] for key in TLS.values())
    assert len({_pem(cluster, key, "ca.crt") for key in TLS.values()}) == 1


def test_what_another_one_creates_meanwhile_is_not_overwritten(
    cluster: Cluster, manifests: list[Manifest]
) -> None:
    key = (NAMESPACE, "secrets", "holdfast-platform")
    theirs = {"metadata": {"resourceVersion": "9"}, "data": {"postgresql-password": "dGhlaXJz"}}

    def other() -> None:
        cluster.there.setdefault(key, theirs)

    cluster.meanwhile = other
    with pytest.raises(Retriable, match="by another one since it was read"):
        _run(cluster, manifests)
    _run(cluster, manifests)
    assert cluster.there[key]["data"]["postgresql-password"] == "dGhlaXJz"


def test_an_account_without_rights_is_told_what_to_do(manifests: list[Manifest]) -> None:
    nobody = Cluster([])
    with pytest.raises(Refused, match=r"change The Secret holdfast-platform in") as refused:
        _run(nobody, manifests)
    assert "init.enabled=false" in refused.value.action


def test_claims_hold_up_no_install_and_belong_to_no_release(render: Render) -> None:
    for of in ("chaos", "compaction"):
        values = {of: {"volume": {"size": "3Gi", "storageClass": "slow"}}}
        manifests = render(CHART, values)
        assert "PersistentVolumeClaim" not in {m["kind"] for m in manifests}
        claims = {c["metadata"]["name"]: c for c in _wanted(manifests)["claims"]}
        assert claims[f"holdfast-{of}"]["metadata"]["namespace"] == "holdfast"
        assert claims[f"holdfast-{of}"]["spec"] == {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "slow",
            "resources": {"requests": {"storage": "3Gi"}},
        }
        left = render(CHART, {of: {"enabled": False}})
        assert f"holdfast-{of}" not in str(_wanted(left))


def test_no_gitops_tool_takes_what_it_creates_for_a_part_of_the_release(
    cluster: Cluster, manifests: list[Manifest]
) -> None:
    """Argo CD finds its objects by this label, and prunes those that are in no manifest."""
    _run(cluster, manifests)
    for made in cluster.there.values():
        assert "app.kubernetes.io/instance" not in made["metadata"]["labels"]
        assert made["metadata"]["labels"]["app.kubernetes.io/part-of"] == CHART


def test_jobs_in_the_platforms_own_namespace_make_one_role(render: Render) -> None:
    manifests = _rendered(render, {**FULL, "jobs": {"namespace": NAMESPACE}})
    roles = [m for m in manifests if m["kind"] == "Role" and m["metadata"]["name"] == INIT]
    assert len(roles) == 1
    cluster = Cluster(manifests)
    assert len(_run(cluster, manifests)) == len(NAMES) == len(cluster.there)


@pytest.mark.parametrize(
    "values", [{"airflow": {"enabled": False}}, {"init": {"enabled": False}}], ids=["kafka", "off"]
)
def test_it_is_left_out_where_there_is_nothing_to_create(
    render: Render, values: dict[str, Any]
) -> None:
    assert INIT not in str(render(CHART, values))


def test_it_ends_before_anything_else_begins_and_leaves_nothing(manifests: list[Manifest]) -> None:
    hooks = [m for m in manifests if m["metadata"]["name"] == INIT]
    assert {m["kind"] for m in hooks} == {
        "ConfigMap", "Job", "Role", "RoleBinding", "ServiceAccount"
    }  # fmt: skip
    for manifest in hooks:
        notes = manifest["metadata"]["annotations"]
        assert notes["helm.sh/hook"] == "pre-install,pre-upgrade"
        last = manifest["kind"] == "Job"
        assert (notes["helm.sh/hook-weight"] == "-1") == last
        gone = notes["helm.sh/hook-delete-policy"].split(",")
        # A failed Job stays, for its log, until Kubernetes deletes it.
        wanted = ["before-hook-creation", "hook-succeeded", *([] if last else ["hook-failed"])]
        assert gone == wanted
        assert not last or manifest["spec"]["ttlSecondsAfterFinished"] == 3600
