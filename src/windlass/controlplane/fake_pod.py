"""The lifecycle of one pod on a fake node."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from . import fake_status as status
from .fake_status import Patch, Pod

ANNOTATION = "fake-kubelet/script"
BACK_OFF = 1.0
"""Seconds from an image's error to its back-off; a real kubelet takes longer."""


@dataclass(frozen=True, slots=True)
class Script:
    """The behaviour of a pod's containers, times in seconds. By default they run until they are ended."""

    start: float | None = None
    """From the binding until they run; None: the kubelet's default."""
    work: float | None = None
    """Until they end by themselves; None: never."""
    code: int = 0
    """Exit code when they end by themselves."""
    reason: str = ""
    """Reason in the container's state, such as "OOMKilled"; empty: Completed or Error, by the code."""
    obeys: bool = True
    """Whether SIGTERM ends them at once (code 143); if not, SIGKILL after the grace period does (code 137)."""
    image_error: str = ""
    """Error of the image pull: the pod stays Pending."""

    def annotation(self) -> dict[str, str]:
        """Returns the annotation for a pod, or for a job's template."""
        return {ANNOTATION: json.dumps(asdict(self))}


def annotated(pod: Pod) -> Script:
    """Returns the script in a pod's annotation."""
    text = pod["metadata"].get("annotations", {}).get(ANNOTATION)
    return Script(**json.loads(text)) if text else Script()


@dataclass(frozen=True, slots=True)
class End:
    """The end of a pod's containers, as a test requests it."""

    code: int = 0
    reason: str = ""
    container: str | None = None
    """The container that ends with the code, others with 0; None: all end with it."""
    evicted: str = ""
    """The kubelet's message, if it evicts the pod."""


@dataclass
class FakePod:
    """A pod on a fake node. `alive`: whether its containers run, independently of the API."""

    pod: Pod
    script: Script
    host: str
    ip: str
    devices: Mapping[str, int]
    alive: bool = False
    has_ended: bool = False
    """Its containers have ended for good."""
    restarts: int = 0
    requested_end: asyncio.Future[End] | None = None
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the pod is to end, or is not in the API any more."""
    forgotten: bool = False
    """Whether it is not in the API any more: no status is written."""
    task: asyncio.Task[None] | None = None


Write = Callable[[FakePod, Patch], Awaitable[bool]]
"""Patches the pod's status, as soon as its node answers; False if the pod does not exist any more."""
Remove = Callable[[FakePod], Awaitable[None]]


def now() -> str:
    """The time as Kubernetes writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


async def run_pod(this: FakePod, default_start: float, write: Write, remove: Remove) -> None:
    """Runs a bound pod to its end, and removes it from the API if it was deleted."""
    start = default_start if this.script.start is None else this.script.start
    if this.script.image_error:
        await _fail_image_pull(this, start, write)
    elif not await _within(this.gone, start):
        await _run(this, write)
    await this.gone.wait()
    this.alive, this.has_ended = False, True
    if not this.forgotten:
        await remove(this)


async def _fail_image_pull(this: FakePod, start: float, write: Write) -> None:
    if await _within(this.gone, start):
        return
    why = this.script.image_error
    await write(this, status.waiting(this.pod, now(), this.host, "ErrImagePull", why))
    if not await _within(this.gone, BACK_OFF):
        await write(this, status.waiting(this.pod, now(), this.host, "ImagePullBackOff", f"Back-off pulling: {why}"))


async def _run(this: FakePod, write: Write) -> None:
    last = None
    while True:
        this.alive = True
        requested = this.requested_end = asyncio.get_running_loop().create_future()
        if not await write(this, status.running(this.pod, now(), this.host, this.ip, this.restarts, last)):
            break
        end = await _wait_for_end(this, requested)
        if not _restarts(this, end):
            await _report_end(this, end, write)
            break
        this.restarts += 1  # at once: a real kubelet backs off from 10 s to 5 minutes
        last = status.terminated(end.code, end.reason, now())
    this.alive = False


async def _wait_for_end(this: FakePod, requested: asyncio.Future[End]) -> End:
    """Waits for a request, the end of the work, or the deletion, whichever is first."""
    gone = asyncio.ensure_future(this.gone.wait())
    waits: list[asyncio.Future[Any]] = [requested, gone]
    try:
        done, _ = await asyncio.wait(waits, timeout=this.script.work, return_when=asyncio.FIRST_COMPLETED)
    finally:
        gone.cancel()
    if requested in done:
        return requested.result()
    if not done:
        return End(this.script.code, this.script.reason)
    if this.forgotten:
        return End(status.KILLED)
    if this.script.obeys:
        return End(status.TERMINATED)
    grace = this.pod["metadata"].get("deletionGracePeriodSeconds", 30)
    await asyncio.wait([requested], timeout=grace)
    return requested.result() if requested.done() else End(status.KILLED)


def _restarts(this: FakePod, end: End) -> bool:
    policy = this.pod["spec"].get("restartPolicy", "Always")
    if this.gone.is_set() or end.evicted or policy == "Never":
        return False
    return policy == "Always" or end.code != 0


async def _report_end(this: FakePod, end: End, write: Write) -> None:
    this.alive, this.has_ended = False, True
    if this.forgotten:
        return
    if end.evicted:
        await write(this, status.evicted(this.pod, now(), end.evicted))
        return
    names = [each["name"] for each in this.pod["spec"]["containers"]]
    codes = {name: end.code if end.container in (None, name) else 0 for name in names}
    await write(this, status.ended(this.pod, now(), codes, end.reason, this.restarts))


async def _within(event: asyncio.Event, seconds: float) -> bool:
    """Returns whether the event was set in time."""
    if seconds <= 0:
        return event.is_set()
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True
