"""The life of one pod on a fake node."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime

from . import fake_status as status
from .fake_status import Patch, Pod

ANNOTATION = "fake-kubelet/script"
BACK_OFF = 1.0
"""Seconds from an image's error to its back-off; a real kubelet takes longer."""


@dataclass(frozen=True, slots=True)
class Script:
    """What the containers of a pod do. Times are seconds. Without a word they run until somebody ends them."""

    start: float | None = None
    """From the binding until they run; None is the kubelet's own."""
    work: float | None = None
    """Until they end by themselves; None is never."""
    code: int = 0
    """With which they end by themselves."""
    reason: str = ""
    """Why they ended, as the container's state says it: "OOMKilled"; empty is Completed or Error, by the code."""
    obeys: bool = True
    """SIGTERM ends them at once (code 143); else only SIGKILL does when the grace is over (code 137)."""
    image_error: str = ""
    """Why the image cannot be pulled: then the pod stays Pending."""

    def annotation(self) -> dict[str, str]:
        """For the annotations of a pod, or of a job's template."""
        return {ANNOTATION: json.dumps(asdict(self))}


def annotated(pod: Pod) -> Script:
    """The script that a pod's annotation holds."""
    text = pod["metadata"].get("annotations", {}).get(ANNOTATION)
    return Script(**json.loads(text)) if text else Script()


@dataclass(frozen=True, slots=True)
class End:
    """How the containers are to end: told by a test."""

    code: int = 0
    reason: str = ""
    container: str | None = None
    """The one that ends with the code, the others with 0; None is all of them."""
    evicted: str = ""
    """The kubelet's message, if it throws the pod out."""


@dataclass
class FakePod:
    """A pod that this kubelet knows. `alive` is the truth about its containers, whatever the API says."""

    pod: Pod
    script: Script
    host: str
    ip: str
    devices: Mapping[str, int]
    alive: bool = False
    over: bool = False
    """Its containers have ended for good."""
    restarts: int = 0
    told: asyncio.Future[End] | None = None
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    """It is to end, or not in the API any more."""
    forgotten: bool = False
    """It is not in the API any more: nothing is to be written about it."""
    task: asyncio.Task[None] | None = None


Write = Callable[[FakePod, Patch], Awaitable[bool]]
"""Patches the pod's status, as soon as its node answers; False if the pod is not there any more."""
Remove = Callable[[FakePod], Awaitable[None]]


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


async def live(this: FakePod, default_start: float, write: Write, remove: Remove) -> None:
    """From bound to ended, and out of the API if it was deleted."""
    start = default_start if this.script.start is None else this.script.start
    if this.script.image_error:
        await _wait_in_vain(this, start, write)
    elif not await _within(this.gone, start):
        await _run(this, write)
    await this.gone.wait()
    this.alive, this.over = False, True
    if not this.forgotten:
        await remove(this)


async def _wait_in_vain(this: FakePod, start: float, write: Write) -> None:
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
        this.told = asyncio.get_running_loop().create_future()
        if not await write(this, status.running(this.pod, now(), this.host, this.ip, this.restarts, last)):
            break
        end = await _ending(this)
        if not _starts_again(this, end):
            await _tell_end(this, end, write)
            break
        this.restarts += 1  # at once: a real kubelet backs off from 10 s to 5 minutes
        last = status.terminated(end.code, end.reason, now())
    this.alive = False


async def _ending(this: FakePod) -> End:
    """Wait for the first of: told by a test, its own work done, deleted."""
    assert this.told is not None
    waits = [this.told, asyncio.ensure_future(this.gone.wait())]
    try:
        done, _ = await asyncio.wait(waits, timeout=this.script.work, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waits[1].cancel()
    if this.told in done:
        return this.told.result()
    if not done:
        return End(this.script.code, this.script.reason)
    if this.forgotten:
        return End(status.KILLED)
    if this.script.obeys:
        return End(status.TERMINATED)
    grace = this.pod["metadata"].get("deletionGracePeriodSeconds", 30)
    await asyncio.wait([this.told], timeout=grace)
    return this.told.result() if this.told.done() else End(status.KILLED)


def _starts_again(this: FakePod, end: End) -> bool:
    policy = this.pod["spec"].get("restartPolicy", "Always")
    if this.gone.is_set() or end.evicted or policy == "Never":
        return False
    return policy == "Always" or end.code != 0


async def _tell_end(this: FakePod, end: End, write: Write) -> None:
    this.alive, this.over = False, True
    if this.forgotten:
        return
    if end.evicted:
        await write(this, status.evicted(this.pod, now(), end.evicted))
        return
    names = [each["name"] for each in this.pod["spec"]["containers"]]
    codes = {name: end.code if end.container in (None, name) else 0 for name in names}
    await write(this, status.ended(this.pod, now(), codes, end.reason, this.restarts))


async def _within(event: asyncio.Event, seconds: float) -> bool:
    """Whether it came in time."""
    if seconds <= 0:
        return event.is_set()
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True
