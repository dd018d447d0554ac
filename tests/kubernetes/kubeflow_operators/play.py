"""Plays cases on a control plane whose operator is given: each in a namespace of its own, many at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable

import strays
from windlass.controlplane.api import Api, ApiError
from windlass.controlplane.fake_kubelet import FakeKubelets
from windlass.controlplane.fake_pod import End

from .kinds import KINDS, Case, Do, Kind, Manifest
from .observation import CaseView, Object, Watcher

QUIET_S, LONGEST_S = 2.0, 30.0
"""Seconds without a change after which a case counts as settled, and the longest wait for that."""
NOTICED_WITHIN_S = 10.0
"""Seconds within which an operator reports in the job's status what was done, if it reports it at all."""
AT_ONCE = 16
AT_LEAST_S = 0.5
Expected = Callable[[Case, int, Object], bool]
"""Tells whether what is seen after an action, by its number, is as expected."""
NODES = [f"n{number}" for number in range(40)]


async def play(
    api: Api,
    cases: Iterable[Case],
    *,
    kinds: tuple[Kind, ...] = KINDS,
    quiet: float = QUIET_S,
    at_once: int = AT_ONCE,
    is_expected: Expected | None = None,
) -> AsyncIterator[tuple[Case, list[Object]]]:
    """Yields each case with what was seen after each of its actions, as they end.

    After an action the cluster is looked at when it is as expected, or when nothing changes any more.
    """
    room = asyncio.Semaphore(at_once)
    async with FakeKubelets(api.access) as kubelets, Watcher(api, kinds) as watcher:
        await kubelets.add_nodes(NODES)

        async def one(case: Case) -> tuple[Case, list[Object]]:
            async with room:
                return case, await _play(api, kubelets, watcher, case, quiet, is_expected)

        for done in asyncio.as_completed([one(case) for case in cases]):
            yield await done


async def _play(
    api: Api,
    kubelets: FakeKubelets,
    watcher: Watcher,
    case: Case,
    quiet: float,
    is_expected: Expected | None,
) -> list[Object]:
    await api.post("/api/v1/namespaces", {"metadata": {"name": case.namespace}})
    await api.until_found(f"/api/v1/namespaces/{case.namespace}/serviceaccounts/default")  # without it pods are refused
    view, seen = CaseView(watcher, case.kind, case.namespace), []
    for action in case.actions:
        before = watcher.status(case.kind, case.namespace)
        try:
            await _act(api, kubelets, watcher, case, action)
        except ApiError as refused:
            seen.append({"refused": str(refused).partition(": ")[0]})
            break
        if is_expected is None:
            await watcher.noticed(case.kind, case.namespace, before, NOTICED_WITHIN_S)
            await watcher.settle(case.namespace, quiet, LONGEST_S)
        else:
            await asyncio.sleep(AT_LEAST_S)
            end = time.monotonic() + quiet
            while not is_expected(case, len(seen), view.peek()) and time.monotonic() < end:  # noqa: ASYNC110 - polled
                await asyncio.sleep(0.2)
        seen.append(view.look())
    await api.delete(f"/api/v1/namespaces/{case.namespace}")
    return seen


async def _act(api: Api, kubelets: FakeKubelets, watcher: Watcher, case: Case, action: Do) -> None:
    jobs = f"/apis/{case.kind.version}/namespaces/{case.namespace}/{case.kind.plural}"
    watcher.changed[case.namespace] = time.monotonic()
    match action.verb:
        case "create":
            await _create(api, jobs, case.manifest)
        case "patch":
            await api.patch(f"{jobs}/job", action.patch)
        case "delete":
            await api.delete(f"{jobs}/job", {"propagationPolicy": "Background"})
        case "wait":
            await asyncio.sleep(action.seconds)
        case "delete_pod":
            for name in _pods(watcher, case, action):
                await api.delete(f"/api/v1/namespaces/{case.namespace}/pods/{name}", {"gracePeriodSeconds": 0})
        case _:
            for name in _pods(watcher, case, action):
                await kubelets.end(case.namespace, name, End(action.code))


async def _create(api: Api, path: str, manifest: Manifest) -> None:
    """Creates a job. An API server answers 503 for some seconds until its policies know a new kind."""
    end = time.monotonic() + strays.TIMEOUT_S
    while True:
        try:
            await api.post(path, manifest)
        except ApiError as refused:
            if refused.status != 503 or time.monotonic() > end:
                raise
            await asyncio.sleep(0.2)
        else:
            return


def _pods(watcher: Watcher, case: Case, action: Do) -> list[str]:
    """Names of the pods that run and that an action is about."""
    running = (
        each["metadata"]["name"]
        for each in watcher.of("pods", case.namespace)
        if each.get("status", {}).get("phase") == "Running" and "deletionTimestamp" not in each["metadata"]
    )
    role = f"job-{action.role.lower()}" if action.role else "job"
    wanted = f"{role}-{action.index}" if action.index is not None and action.role != "Launcher" else role
    return [name for name in running if name == wanted or (wanted == role and name.startswith(f"{role}-"))]
