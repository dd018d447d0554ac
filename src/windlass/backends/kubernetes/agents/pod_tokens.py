"""Proves that an agent runs in a pod: by a token that the pod's kubelet has requested, and by its address.

The token is a projected one of the pod's service account, bound to the pod and to the audience `AUDIENCE`: it is good
for nothing else, expires, and no object of the API contains it. TokenReview names the pod that it is bound to.
"""

from __future__ import annotations

import asyncio
import ipaddress

from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.client.reviews import User, account_namespace, is_reviewable, review_token
from windlass.backends.port import BackendError
from windlass.jobs.kubernetes.pods.agent_pods import AUDIENCE

_POD_UID = "authentication.kubernetes.io/pod-uid"
"""Extra information about a user that is a pod; the API server has checked that the pod exists."""
_CONCURRENT = 16
"""Maximum number of reviews under way."""
_TIMEOUT_S = 8.0
"""Seconds in which a review must be answered; the agent connects again after it."""
_REFUSAL_S = 5.0
"""Seconds after a rejected token, or a connection that ended during its review, without another review."""


class TokenReviews:
    """Reviews of agents' tokens by the API server: one at a time for a pod and an address."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._turns = asyncio.Semaphore(_CONCURRENT)
        self._closed: set[tuple[str, str]] = set()
        """Uids of pods and addresses for which no review begins: one is under way, or has failed a moment ago.

        The address is part of it, so that no stranger keeps the agent of a pod on the host's network out.
        """

    async def proves(self, token: object, pod: Pod, address: str) -> bool:
        """Tells whether a token was issued for agents to exactly this pod. `address`: of the connection.

        Raises BackendError if there is no answer, or no review at this moment.
        """
        if not is_reviewable(token):
            return False
        key = pod.metadata.uid, address
        if key in self._closed:
            raise BackendError(f"a review for the pod {pod.metadata.name} is under way, or has just failed")
        self._closed.add(key)
        delay = _REFUSAL_S
        try:
            if is_proven := _is_account_of(await self._review(token), pod):
                delay = 0.0
        except BackendError:
            delay = 0.0
            raise
        finally:
            self._reopen(key, delay)
        return is_proven

    def _reopen(self, key: tuple[str, str], delay: float) -> None:
        """Allows reviews again, after `delay` seconds."""
        if delay:
            asyncio.get_running_loop().call_later(delay, self._closed.discard, key)
        else:
            self._closed.discard(key)

    async def _review(self, token: str) -> User | None:
        """Returns the user of an agent's token; None for any other token. Raises BackendError."""
        async with self._turns:
            return await review_token(self._connection, token, [AUDIENCE], within=_TIMEOUT_S)


def _is_account_of(user: User | None, pod: Pod) -> bool:
    """Tells whether the user of a token is the service account of this very pod."""
    if user is None or account_namespace(user.name) != pod.metadata.namespace:
        return False
    return user.values_of(_POD_UID) == (pod.metadata.uid,)


def comes_from(pod: Pod, address: str) -> bool:
    """Tells whether a connection from this address may be one of the pod.

    The node decides from which of its addresses a pod on the host's network connects.
    """
    if pod.spec.host_network:
        return bool(pod.status.pod_ip)
    return bool(pod.status.pod_ip) and _normalised(address) == _normalised(pod.status.pod_ip)


def _normalised(text: str) -> str:
    """An address as IPv4 where an IPv6 socket shows it as mapped."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return ""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)
