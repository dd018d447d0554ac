"""Options of the dashboard of a cluster, and the command that reaches it."""

from ipaddress import ip_network
from pathlib import Path

import pytest

from windlass.cli.dashboard_options import dashboard_options
from windlass.cli.errors import UsageError
from windlass.cli.kubernetes.dashboard_forward import forward_command


def test_a_proxy_is_described_by_its_proofs_and_headers() -> None:
    text = "networks=10.0.3.0/24+fd00::/8,ca=/etc/ca.crt,names=gate+spare,user-header=X-User"
    options = dashboard_options(8444, "https://windlass.example.com/, https://other", text, actions=True)
    assert options is not None
    assert options.origins == ("https://windlass.example.com", "https://other")
    proxy = options.proxy
    assert proxy.networks == (ip_network("10.0.3.0/24"), ip_network("fd00::/8"))
    assert (proxy.authority, proxy.names) == (Path("/etc/ca.crt"), ("gate", "spare"))
    assert (proxy.user_header, proxy.group_header) == ("X-User", "X-Remote-Group")


def test_without_options_no_proxy_is_trusted() -> None:
    options = dashboard_options(0, "", "", actions=False)
    assert options is not None
    assert not options.proxy.is_configured
    assert dashboard_options(None, "", "", actions=False) is None


@pytest.mark.parametrize(
    ("origins", "proxy", "text"),
    [
        ("", "user-header=X-User", "needs networks=… or ca=…"),
        ("", "network=10.0.0.0/8", "not network"),
        ("", "networks", "not networks"),
        ("", "networks=10.0.3.7/24", "10.0.3.7/24 has host bits set"),
        ("http://windlass.example.com", "", "https://windlass.example.com"),
        ("windlass.example.com", "", "--dashboard-origins"),
        ("https://a/b", "", "--dashboard-origins"),
    ],
)
def test_wrong_options_are_refused(origins: str, proxy: str, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        dashboard_options(8444, origins, proxy, actions=False)


def test_options_without_a_port_are_refused() -> None:
    with pytest.raises(UsageError, match="--dashboard-port"):
        dashboard_options(None, "", "", actions=True)


def test_the_command_names_context_namespace_and_port() -> None:
    assert " ".join(forward_command("lab", "windlass-system", 0)) == (
        "kubectl --context lab port-forward -n windlass-system service/windlass-operator-queries :8444"
    )
    assert forward_command("", "ops", 7420)[1:] == [
        "port-forward", "-n", "ops", "service/windlass-operator-queries", "7420:8444",
    ]  # fmt: skip
