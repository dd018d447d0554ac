"""`windlass ui` for a cluster: forwards a port to the leader, and signs in with the token of the kubeconfig's user."""

from __future__ import annotations

import asyncio
import json
import shlex
import shutil
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable

from windlass.backends.kubernetes.client import access
from windlass.cli.errors import UsageError
from windlass.cli.kubernetes.port_forward import wait_for_port
from windlass.jobs.kubernetes.operator_names import DASHBOARD_PORT
from windlass.jobs.kubernetes.query_api import SERVICE
from windlass.server.errors import ApiError, ErrorCode

_FIX = (
    "see: windlass operator check; forwarding needs create on pods/portforward, get on services, "
    "and get and list on pods in its namespace"
)
_TIMEOUT_S = 30
_BEARER = "Bearer "


def forward_dashboard(context: str, namespace: str, port: int, show: Callable[[str], None]) -> None:
    """Forwards a port of this machine (0: any) until kubectl ends. `show` gets the address for a browser.

    `context`: of the kubeconfig, "" for the current one; `namespace`: of the operator. Raises ApiError, UsageError,
    AccessError.
    """
    command = forward_command(context, namespace, port)
    program = shutil.which(command[0])
    if program is None:
        text = "the dashboard of a cluster is reached by kubectl, which is not installed\ninstall it, and run: "
        raise UsageError(f"{text}{shlex.join(command)}")
    token = asyncio.run(_find_token(context))
    with subprocess.Popen([program, *command[1:]], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        try:
            chosen = wait_for_port(process.stdout, "kubectl does not forward a port to the operator", _FIX)
            show(_address(f"https://127.0.0.1:{chosen}", token))
            for _ in process.stdout:
                pass  # a full pipe would stop kubectl
        finally:
            process.terminate()


def forward_command(context: str, namespace: str, port: int) -> list[str]:
    """The command that forwards a port of this machine to the dashboard."""
    chosen = ["--context", context] if context else []
    local = f"{port or ''}:{DASHBOARD_PORT}"
    return ["kubectl", *chosen, "port-forward", "-n", namespace, f"service/{SERVICE}", local]


async def _find_token(context: str) -> str:
    """The bearer token of the kubeconfig's user; empty if it has none, but for example a certificate."""
    identity = await access.find(context or None).identify(False)
    return identity.authorization.removeprefix(_BEARER) if identity.authorization.startswith(_BEARER) else ""


def _address(url: str, token: str) -> str:
    """The address of a one-time link; without a token that of the sign-in page. Raises ApiError."""
    if not token:
        return f"{url}/login"
    body = json.dumps({"token": token, "link": True}).encode()
    request = urllib.request.Request(f"{url}/login", body, {"Content-Type": "application/json", "Origin": url})  # noqa: S310 - https
    # the API server has authenticated the tunnel; the certificate is for the name of the Service
    context = ssl._create_unverified_context()  # noqa: S323, SLF001 - the documented way to have none
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S, context=context) as answer:  # noqa: S310 - https
            return f"{url}/login?code={json.load(answer)['code']}"
    except urllib.error.HTTPError as error:
        text = error.read().decode(errors="replace").strip()
        raise ApiError(ErrorCode.NOT_AUTHENTICATED, f"the dashboard refuses to sign in: {text[:500]}") from None
    except (OSError, ValueError, KeyError) as error:
        raise ApiError(ErrorCode.NO_DAEMON, f"the dashboard does not answer: {error}") from None
