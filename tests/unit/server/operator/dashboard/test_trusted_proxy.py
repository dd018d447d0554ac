"""Connections whose headers name a user, and headers that are refused."""

from __future__ import annotations

from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from windlass.server.errors import ApiError
from windlass.server.operator.bounded_http import CLIENT_NAME
from windlass.server.operator.dashboard.trusted_proxy import TrustedProxy

NETWORK = (ip_network("10.0.3.0/24"),)
AUTHORITY = Path("/etc/proxy/ca.crt")


def scope(client: str = "10.0.3.7", name: str = "", **headers: str) -> dict[str, Any]:
    raw = [(key.replace("_", "-").encode(), value.encode()) for key, value in headers.items()]
    return {"client": (client, 1), "headers": raw, **({CLIENT_NAME: name} if name else {})}


def test_a_proxy_is_known_by_its_address() -> None:
    proxy = TrustedProxy(NETWORK)
    user = proxy.find_user(scope(x_remote_user="zoe", x_remote_group="ml, all"))
    assert user is not None
    assert (user.name, user.groups) == ("zoe", ("ml", "all", "system:authenticated"))
    assert proxy.find_user(scope("::ffff:10.0.3.7", x_remote_user="zoe")) is not None
    for other in ("10.0.4.7", "::1", "", "unix"):
        assert proxy.find_user(scope(other, x_remote_user="zoe")) is None
    assert proxy.find_user(scope()) is None


def test_a_proxy_is_known_by_its_certificate() -> None:
    proxy = TrustedProxy(authority=AUTHORITY, names=("gate",))
    assert proxy.find_user(scope("1.2.3.4", "gate", x_remote_user="zoe")) is not None
    assert proxy.find_user(scope("1.2.3.4", "other", x_remote_user="zoe")) is None
    assert proxy.find_user(scope("1.2.3.4", x_remote_user="zoe")) is None
    both = TrustedProxy(NETWORK, AUTHORITY)
    assert both.find_user(scope("10.0.3.7", "gate", x_remote_user="zoe")) is not None
    assert both.find_user(scope("10.0.3.7", x_remote_user="zoe")) is None
    assert both.find_user(scope("1.2.3.4", "gate", x_remote_user="zoe")) is None


def test_without_a_configuration_no_header_counts() -> None:
    assert TrustedProxy().find_user(scope(name="gate", x_remote_user="zoe")) is None


@pytest.mark.parametrize(
    ("headers", "text"),
    [
        ({"x_remote_user": "system:admin"}, "Kubernetes' own"),
        ({"x_remote_user": "zoe", "x_remote_group": "ml, system:masters"}, "Kubernetes' own"),
        ({"x_remote_user": ""}, "does not name one user"),
        ({"x_remote_user": "z" * 2_000}, "does not name one user"),
        ({"x_remote_user": "zoe", "x_remote_group": "a," * 1_000}, "does not name one user"),
    ],
)
def test_names_of_kubernetes_and_unclear_ones_are_refused(headers: dict[str, str], text: str) -> None:
    with pytest.raises(ApiError, match=text):
        TrustedProxy(NETWORK).find_user(scope(**headers))


def test_two_headers_with_names_are_refused() -> None:
    sent = scope(x_remote_user="zoe")
    sent["headers"].append((b"x-remote-user", b"eve"))
    with pytest.raises(ApiError, match="does not name one user"):
        TrustedProxy(NETWORK).find_user(sent)
