"""Options of `windlass operator run` for the dashboard of a cluster."""

from __future__ import annotations

from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias
from urllib.parse import urlsplit

import typer

from windlass.cli.errors import UsageError

if TYPE_CHECKING:
    from windlass.server.operator.dashboard.port import DashboardOptions
    from windlass.server.operator.dashboard.trusted_proxy import TrustedProxy

DashboardPortOption: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--dashboard-port",
        help="Port of the dashboard, with TLS and the certificate of the queries; 0: any free port.  [default: none]",
    ),
]
DashboardActionsOption: TypeAlias = Annotated[
    bool,
    typer.Option("--dashboard-actions", help="Users who signed in with a token may change jobs, with its rights."),
]
DashboardOriginsOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--dashboard-origins",
        metavar="URL,…",
        help="Addresses of the dashboard in browsers, where a proxy changes the Host header.",
    ),
]
DashboardProxyOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--dashboard-proxy",
        metavar="NAME=VALUE,…",
        help="Proxy that names its users in headers: networks=10.0.3.0/24+…, ca=FILE and names=… of its client "
        "certificate, user-header=X-Remote-User, group-header=X-Remote-Group.",
    ),
]
_PROXY_KEYS = ("networks", "ca", "names", "user-header", "group-header")


def dashboard_options(port: int | None, origins: str, proxy: str, *, actions: bool) -> DashboardOptions | None:
    """Returns the options of the dashboard; None without a port. Raises UsageError."""
    from windlass.server.operator.dashboard.port import DashboardOptions  # noqa: PLC0415 - verbs start light

    if port is None:
        if origins or actions or proxy:
            raise UsageError("options of the dashboard need --dashboard-port")
        return None
    return DashboardOptions(port, tuple(map(_origin, _parts(origins, ","))), actions, _trusted_proxy(proxy))


def _trusted_proxy(text: str) -> TrustedProxy:
    """Returns the proxy whose headers are trusted. Raises UsageError."""
    from windlass.server.operator.dashboard.trusted_proxy import TrustedProxy  # noqa: PLC0415 - verbs start light

    pairs = [part.partition("=") for part in _parts(text, ",")]
    given = {key: value for key, _, value in pairs if value}
    if len(given) < len(pairs) or (wrong := given.keys() - set(_PROXY_KEYS)):
        found = ", ".join(sorted(wrong)) if len(given) == len(pairs) else text[:80]
        raise UsageError(f"--dashboard-proxy expects {', '.join(f'{key}=…' for key in _PROXY_KEYS)}, not {found}")
    if given and not given.keys() & {"networks", "ca"}:
        raise UsageError("--dashboard-proxy needs networks=… or ca=…: without them anybody could name a user")
    try:
        networks = tuple(ip_network(each) for each in _parts(given.get("networks", ""), "+"))
    except ValueError as error:
        raise UsageError(f"--dashboard-proxy: {error}; write networks like 10.0.3.0/24") from None
    headers = {"user_header": given.get("user-header"), "group_header": given.get("group-header")}
    return TrustedProxy(
        networks,
        Path(given["ca"]) if "ca" in given else None,
        tuple(_parts(given.get("names", ""), "+")),
        **{name: value for name, value in headers.items() if value},
    )


def _origin(text: str) -> str:
    found = urlsplit(text)
    if found.scheme != "https" or not found.hostname or found.path.strip("/") or found.query:
        raise UsageError(f"--dashboard-origins expects addresses like https://windlass.example.com, not {text[:80]!r}")
    return f"{found.scheme}://{found.netloc}"


def _parts(text: str, separator: str) -> list[str]:
    return [part.strip() for part in text.split(separator) if part.strip()]
