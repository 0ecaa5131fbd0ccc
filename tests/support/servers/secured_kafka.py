"""A broker with TLS, every way to say who one is, and ACLs; and the clients of each way.

    with SecuredKafka(folder) as kafka:
        kafka.grant("clerk", Binding(Resource.TOPIC, "orders", Operation.READ))
        Admin(kafka.client("clerk", Way.SCRAM))

One process with three listeners: plain text for the tests themselves, who may do everything;
SASL_SSL for passwords and tokens; SSL for clients with a certificate.
"""

from __future__ import annotations

import base64
import json
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its stubs re-export nothing
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialUpsertion,
)

from holdfast.local import broker as broker_module
from holdfast.local.broker import LocalKafka
from holdfast.local.broker_files import server_properties
from holdfast.local.probe import HOST, free_ports
from holdfast.types.acls import Binding, Resource
from tests.support.servers.certificates import Authority

__all__ = ["PASSWORD", "USERS", "SecuredKafka", "TokenEndpoint", "Way"]

PASSWORD = "canary-0d9f-hunter2"  # found wherever it must not be
USERS = ("job", "server", "judge", "compactor", "tester", "clerk", "breaker")
_WAIT_S = 30.0
_VALIDATOR = (
    "org.apache.kafka.common.security.oauthbearer.internals.unsecured."
    "OAuthBearerUnsecuredValidatorCallbackHandler"
)
_MODULES = "org.apache.kafka.common.security"


class Way(StrEnum):
    """How a client says who it is."""

    PLAIN = "PLAIN"
    SCRAM = "SCRAM-SHA-512"
    TOKEN = "OAUTHBEARER"
    CERTIFICATE = "mTLS"


class TokenEndpoint:
    """An authority of tokens: OAuth's client credentials for a JWT that nobody has signed."""

    def __init__(self) -> None:
        outer = self
        self.asked: list[str] = []  # by which clients

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer._answer(self)

            def log_message(self, *args: object) -> None:
                """Not a line for each request."""

        self._server = ThreadingHTTPServer((HOST, 0), Handler)
        self.url = f"http://{HOST}:{self._server.server_port}/token"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        form = urllib.parse.parse_qs(
            request.rfile.read(int(request.headers["Content-Length"])).decode()
        )
        given = request.headers["Authorization"].removeprefix("Basic ")
        user, _, password = base64.b64decode(given).decode().partition(":")
        good = password == PASSWORD and form["grant_type"] == ["client_credentials"]
        self.asked.append(user)
        told = {"access_token": _token(user)} if good else {"error": "invalid_client"}
        body = json.dumps(told).encode()
        request.send_response(200 if good else 401)
        request.send_header("Content-Type", "application/json")
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _token(user: str) -> str:
    now = int(time.time())
    parts = {"alg": "none"}, {"sub": user, "iat": now, "exp": now + 3600}
    texts = (base64.urlsafe_b64encode(json.dumps(part).encode()) for part in parts)
    return ".".join(text.decode().rstrip("=") for text in texts) + "."


class SecuredKafka:
    """Owns the broker, its authority of certificates, and the endpoint that gives out tokens.

    Args:
        settings: of the broker, over those that it has anyway.
    """

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        """Starts all of it."""
        self._settings = dict(settings or {})
        self._port, self.sasl_port, self.tls_port = free_ports(3)
        self.authority = Authority("brokers", _made(folder / "certificates"))
        self._certificates = {name: self.authority.issue(name) for name in ("broker", *USERS)}
        self.tokens = TokenEndpoint()
        self._kafka = LocalKafka(folder)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(broker_module, "server_properties", self._properties)
            self.master = {"bootstrap.servers": self._kafka.start(self._port).bootstrap_servers}
        self._admin = AdminClient({**self.master})
        self._add_scram_users()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._kafka.wipe()
        self.tokens.close()

    @property
    def log(self) -> str:
        """The broker's log."""
        return self._kafka.log_file.read_text(encoding="utf-8", errors="replace")

    def client(self, user: str, way: Way = Way.SCRAM) -> dict[str, str]:
        """A client's properties."""
        port = self.tls_port if way is Way.CERTIFICATE else self.sasl_port
        client = {
            "bootstrap.servers": f"{HOST}:{port}",
            "security.protocol": "SSL" if way is Way.CERTIFICATE else "SASL_SSL",
            "ssl.ca.location": str(self.authority.path),
        }
        if way is Way.CERTIFICATE:
            certificate, key = self._certificates[user]
            return client | {
                "ssl.certificate.location": str(certificate),
                "ssl.key.location": str(key),
            }
        client["sasl.mechanism"] = way.value
        if way is Way.TOKEN:
            return client | {
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.client.id": user,
                "sasl.oauthbearer.client.secret": PASSWORD,
                "sasl.oauthbearer.token.endpoint.url": self.tokens.url,
            }
        return client | {"sasl.username": user, "sasl.password": PASSWORD}

    def grant(self, user: str, bindings: Iterable[Binding]) -> None:
        """Allows it; when this returns it is in force."""
        acls = [_acl(user, binding) for binding in bindings]
        for done in self._admin.create_acls(acls).values():
            done.result()
        self._until(user, lambda found: all(acl in found for acl in acls))

    def revoke(self, user: str, bindings: Iterable[Binding]) -> None:
        """Takes it back; when this returns that is in force."""
        acls = [_acl(user, binding) for binding in bindings]
        for done in self._admin.delete_acls([_filter(acl) for acl in acls]).values():
            done.result()
        self._until(user, lambda found: not any(acl in found for acl in acls))

    def revoke_all(self, user: str) -> None:
        """Takes everything back."""
        self._admin.delete_acls([_of(user)])[_of(user)].result()
        self._until(user, lambda found: not found)

    @contextmanager
    def without(self, user: str, binding: Binding) -> Iterator[None]:
        """For a while one thing less is allowed."""
        self.revoke(user, [binding])
        try:
            yield
        finally:
            self.grant(user, [binding])

    def _until(self, user: str, holds: Callable[[list[AclBinding]], bool]) -> None:
        """The controller has it before the broker."""
        deadline = time.monotonic() + _WAIT_S
        while not holds(list(self._admin.describe_acls(_of(user)).result())):
            assert time.monotonic() < deadline, f"the ACLs of {user} are not in force"
            time.sleep(0.02)

    def _add_scram_users(self) -> None:
        how = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        wanted: list[UserScramCredentialAlteration] = [
            UserScramCredentialUpsertion(user, how, PASSWORD.encode()) for user in USERS
        ]
        for done in self._admin.alter_user_scram_credentials(wanted).values():
            done.result()

    def _properties(self, data: Path, port: int, controller_port: int) -> str:
        listeners = (
            f"PLAINTEXT://{HOST}:{port},SASL_SSL://{HOST}:{self.sasl_port},"
            f"SSL://{HOST}:{self.tls_port}"
        )
        plain = " ".join(f'user_{user}="{PASSWORD}"' for user in USERS)
        sasl = "listener.name.sasl_ssl"
        more = {
            "listeners": f"{listeners},CONTROLLER://{HOST}:{controller_port}",
            "advertised.listeners": listeners,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,"
            "SASL_SSL:SASL_SSL,SSL:SSL",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512,OAUTHBEARER",
            f"{sasl}.plain.sasl.jaas.config": f"{_MODULES}.plain.PlainLoginModule "
            f"required {plain};",
            f"{sasl}.scram-sha-512.sasl.jaas.config": f"{_MODULES}.scram.ScramLoginModule "
            "required;",
            f"{sasl}.oauthbearer.sasl.jaas.config": f"{_MODULES}.oauthbearer."
            "OAuthBearerLoginModule required;",
            f"{sasl}.oauthbearer.sasl.server.callback.handler.class": _VALIDATOR,
            "listener.name.ssl.ssl.client.auth": "required",
            "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/,DEFAULT",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            **self._stores(data.parent),
            **self._settings,
        }
        return server_properties(data, port, controller_port) + "".join(
            f"{key}={value}\n" for key, value in more.items()
        )

    def _stores(self, folder: Path) -> Mapping[str, str]:
        certificate, key = (path.read_text() for path in self._certificates["broker"])
        (folder / "broker.pem").write_text(key + certificate)
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(folder / "broker.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority.path),
        }


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


_KINDS = {
    Resource.TOPIC: ResourceType.TOPIC,
    Resource.GROUP: ResourceType.GROUP,
    Resource.CLUSTER: ResourceType.BROKER,
    Resource.TRANSACTIONAL_ID: ResourceType.TRANSACTIONAL_ID,
}


def _acl(user: str, binding: Binding) -> AclBinding:
    return AclBinding(
        _KINDS[binding.resource],
        binding.name,
        ResourcePatternType.PREFIXED if binding.prefixed else ResourcePatternType.LITERAL,
        f"User:{user}",
        "*",
        AclOperation[binding.operation],
        AclPermissionType.ALLOW,
    )


def _filter(acl: AclBinding) -> AclBindingFilter:
    return AclBindingFilter(
        acl.restype, acl.name, acl.resource_pattern_type, acl.principal, acl.host, acl.operation,
        acl.permission_type,
    )  # fmt: skip


def _of(user: str) -> AclBindingFilter:
    any_name: Any = None  # its stubs want a text, and the client takes none for all
    return AclBindingFilter(
        ResourceType.ANY, any_name, ResourcePatternType.ANY, f"User:{user}", any_name,
        AclOperation.ANY, AclPermissionType.ANY,
    )  # fmt: skip
