"""Common parts of task pods: least privileges, and Kafka's credentials."""

from __future__ import annotations

from posixpath import dirname
from typing import Any

from kubernetes.client import models as k8s

from holdfast_airflow.request import SERVE_CA

__all__ = [
    "SCRATCH",
    "VOLUME_LABEL",
    "beside_others",
    "container_security",
    "kafka_access",
    "pod_security",
    "resources",
    "scratch",
    "serve_access",
    "shared_volume",
]

SCRATCH = "/tmp"  # noqa: S108 - an emptyDir of the pod
"""The only writable folder of a pod."""

VOLUME_LABEL = "holdfast/volume"
"""Label of the pods that share a claim; its value is the claim's name."""

# The chart's mount path, too.
_TLS_FOLDER = "/etc/holdfast/tls"
_SECRETS_FOLDER = "/etc/holdfast/secrets"


def pod_security(fs_group: int | None = None) -> k8s.V1PodSecurityContext:
    """Security context of every pod, as required by the pod security standard `restricted`."""
    return k8s.V1PodSecurityContext(
        run_as_non_root=True,
        run_as_user=10001,
        run_as_group=0,
        fs_group=fs_group,
        seccomp_profile=k8s.V1SeccompProfile(type="RuntimeDefault"),
    )


def container_security() -> k8s.V1SecurityContext:
    """Security context of every container: `restricted`, with a read-only root file system."""
    return k8s.V1SecurityContext(
        allow_privilege_escalation=False,
        read_only_root_filesystem=True,
        run_as_non_root=True,
        capabilities=k8s.V1Capabilities(drop=["ALL"]),
    )


def resources(cpu: str, memory: str, most: str) -> k8s.V1ResourceRequirements:
    """Requests, and a memory limit; there is no CPU limit."""
    return k8s.V1ResourceRequirements(
        requests={"cpu": cpu, "memory": memory}, limits={"memory": most}
    )


def scratch() -> tuple[k8s.V1Volume, k8s.V1VolumeMount]:
    """A writable folder, deleted with the pod."""
    volume = k8s.V1Volume(name="tmp", empty_dir=k8s.V1EmptyDirVolumeSource(size_limit="256Mi"))
    return volume, k8s.V1VolumeMount(name="tmp", mount_path=SCRATCH)


def shared_volume(claim: str, folder: str) -> tuple[k8s.V1Volume, k8s.V1VolumeMount]:
    """The claim that all pods of a run share, mounted at `folder`."""
    source = k8s.V1PersistentVolumeClaimVolumeSource(claim_name=claim)
    volume = k8s.V1Volume(name="runs", persistent_volume_claim=source)
    return volume, k8s.V1VolumeMount(name="runs", mount_path=folder)


def beside_others(claim: str) -> k8s.V1Affinity:
    """Affinity to the node of other pods with the claim, which may be ReadWriteOnce."""
    term = k8s.V1PodAffinityTerm(
        label_selector=k8s.V1LabelSelector(match_labels={VOLUME_LABEL: claim}),
        topology_key="kubernetes.io/hostname",
    )
    return k8s.V1Affinity(
        pod_affinity=k8s.V1PodAffinity(required_during_scheduling_ignored_during_execution=[term])
    )


def kafka_access(
    kafka: dict[str, Any],
) -> tuple[list[k8s.V1EnvVar], list[k8s.V1Volume], list[k8s.V1VolumeMount]]:
    """Environment and volumes that connect a task pod to Kafka like the job's pods.

    Secrets are files, as there: every child process would see environment variables.

    Args:
        kafka: the chart's values under `kafka`.
    """
    plain = dict(kafka.get("properties", {}))
    tls = kafka.get("tls", {})
    secret = tls.get("existingSecret")
    if secret:
        plain["ssl.ca.location"] = f"{_TLS_FOLDER}/ca.crt"
    if secret and tls.get("clientCertificate"):
        plain["ssl.certificate.location"] = f"{_TLS_FOLDER}/tls.crt"
        plain["ssl.key.location"] = f"{_TLS_FOLDER}/tls.key"
    variables = [k8s.V1EnvVar(name=_variable(key), value=str(plain[key])) for key in plain]
    secrets = kafka.get("secretProperties", {})
    variables += [
        k8s.V1EnvVar(name=_variable(f"{key}.file"), value=f"{_SECRETS_FOLDER}/{key}")
        for key in secrets
    ]
    volumes, mounts = _tls_volume(secret)
    more, where = _secrets_volume(secrets)
    return variables, [*volumes, *more], [*mounts, *where]


def serve_access(
    serve: dict[str, Any],
) -> tuple[list[k8s.V1EnvVar], list[k8s.V1Volume], list[k8s.V1VolumeMount]]:
    """A task pod's token for query servers, and the CA of their certificates.

    Args:
        serve: the chart's values under `serve`; empty: no server is queried.
    """
    auth, tls = serve.get("auth", {}), serve.get("tls", {}).get("existingSecret")
    variables = []
    if auth.get("existingSecret"):
        token = {"name": auth["existingSecret"], "key": auth["testTokenKey"]}
        variables = [_from_secret("HOLDFAST_CLI_SERVER_TOKEN", token)]
    if not tls:
        return variables, [], []
    only = [k8s.V1KeyToPath(key="ca.crt", path="ca.crt")]
    source = k8s.V1SecretVolumeSource(secret_name=tls, items=only, default_mode=0o444)
    mount = k8s.V1VolumeMount(name="serve-tls", mount_path=dirname(SERVE_CA), read_only=True)
    return variables, [k8s.V1Volume(name="serve-tls", secret=source)], [mount]


def _variable(setting: str) -> str:
    return "HOLDFAST_KAFKA_" + setting.upper().replace(".", "_")


def _from_secret(name: str, reference: dict[str, str]) -> k8s.V1EnvVar:
    source = k8s.V1SecretKeySelector(name=reference["name"], key=reference["key"])
    return k8s.V1EnvVar(name=name, value_from=k8s.V1EnvVarSource(secret_key_ref=source))


def _secrets_volume(
    secrets: dict[str, dict[str, str]],
) -> tuple[list[k8s.V1Volume], list[k8s.V1VolumeMount]]:
    if not secrets:
        return [], []
    sources = [
        k8s.V1VolumeProjection(
            secret=k8s.V1SecretProjection(
                name=ref["name"], items=[k8s.V1KeyToPath(key=ref["key"], path=setting)]
            )
        )
        for setting, ref in secrets.items()
    ]
    projected = k8s.V1ProjectedVolumeSource(sources=sources, default_mode=0o444)
    volume = k8s.V1Volume(name="kafka-secrets", projected=projected)
    mount = k8s.V1VolumeMount(name="kafka-secrets", mount_path=_SECRETS_FOLDER, read_only=True)
    return [volume], [mount]


def _tls_volume(secret: str | None) -> tuple[list[k8s.V1Volume], list[k8s.V1VolumeMount]]:
    if not secret:
        return [], []
    volume = k8s.V1Volume(
        name="tls", secret=k8s.V1SecretVolumeSource(secret_name=secret, default_mode=0o444)
    )
    return [volume], [k8s.V1VolumeMount(name="tls", mount_path=_TLS_FOLDER, read_only=True)]
