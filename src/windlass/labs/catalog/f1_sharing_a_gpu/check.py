"""Check of F1: the learner's choice, planned and simulated again, and the causes against what was not chosen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import yaml

from windlass.hardware.sharing.modes import Mode
from windlass.hardware.sharing.plan import SharingPlan, plan_sharing
from windlass.hardware.sharing.request import SharingRequest
from windlass.hardware.sharing.request_file import load_request, read_request
from windlass.jobs.errors import InputError
from windlass.jobs.syntax.text import Text
from windlass.labs.evidence.findings import EvidenceError, Finding
from windlass.labs.evidence.lab import Lab

REQUEST, WHY = "request.yaml", "why.yaml"
START = Path(__file__).parent / "start" / REQUEST
MOST_GPUS = 10
"""GPUs of 12 that may be in use: two stay free for the next job."""
TRIED = ("whole", "mig:1g.10gb", "mig:2g.20gb", "mps:4", "time-slicing:4", "time-slicing:7")
"""Uses of which the causes count, beside those that the planner itself tries."""
QUESTIONS = {
    "pretrain": ("mig", "time-slicing"),
    "chat": ("whole", "mps", "time-slicing"),
    "notebooks": ("whole", "mig"),
}
Reasons = dict[str, dict[str, str]]


def check(lab: Lab) -> Iterator[Finding]:
    """Plans the learner's request again, then compares the causes in why.yaml with those of the plan."""
    # 1. the request still asks for the same
    request, given = _learners_request(lab), load_request(str(START))
    yield Finding(
        _without_uses(request) == given,
        f"{REQUEST} has the pool and the workloads of the lab",
        "change nothing but the lines `use:`; windlass lab start f1 --fresh restores the file",
    )
    # 2. each workload has a use
    missing = [each.name for each in request.workloads if not each.use]
    yield Finding(
        not missing,
        "each workload has a chosen use",
        f"write a line such as `use: whole` to {', '.join(missing)}",
    )
    if missing or _without_uses(request) != given:
        return
    # 3. the simulation
    yield from _judged(plan_sharing(request))
    # 4. the rationale
    yield from _explained(lab, given)


def _learners_request(lab: Lab) -> SharingRequest:
    text = lab.file(REQUEST)
    if text is None:
        raise EvidenceError(f"there is no {REQUEST}", "windlass lab start f1 restores it")
    try:
        return read_request(Text(REQUEST, text), START.parent)
    except InputError as error:
        raise EvidenceError(f"{REQUEST} cannot be planned: {error}", "windlass gpu plan request.yaml") from None


def _without_uses(request: SharingRequest) -> SharingRequest:
    return replace(request, workloads=tuple(replace(each, use="") for each in request.workloads))


def _judged(plan: SharingPlan) -> Iterator[Finding]:
    for each in plan.workloads:
        name, use = each.workload.name, each.workload.use
        limits = "; ".join(f"{no.cause}: {no.text}" for no in each.rejections)
        yield Finding(
            not each.refused and not each.broken,
            f"{name}: all pods run as {use}, within memory, isolation and time",
            f"{name} as {use} fails by {limits}. The pool stays as it is: try another use of it, or of a workload that "
            "takes its GPUs",
        )
    in_use = sum(pool.forecast.gpus_in_use for pool in plan.pools)
    yield Finding(
        in_use <= MOST_GPUS,
        f"at most {MOST_GPUS} of 12 GPUs are in use",
        f"{in_use} GPUs are in use, so the next job waits: give a small workload a smaller part of a GPU",
    )


def _explained(lab: Lab, given: SharingRequest) -> Iterator[Finding]:
    written, known = _learners_reasons(lab), _causes(given)
    for workload, modes in QUESTIONS.items():
        for mode in modes:
            cause = written.get(workload, {}).get(mode, "?")
            yield Finding(
                cause in known[workload, mode],
                f"{WHY}: {workload} is not {mode} because of a cause that the plan names",
                f"{cause!r} does not keep {workload} from {mode}: write `use: {mode}…` or no `use:` into a copy of "
                f"{REQUEST}, and read the cause in parentheses",
            )


def _learners_reasons(lab: Lab) -> Reasons:
    try:
        return msgspec.convert(yaml.safe_load(lab.file(WHY) or "{}"), Reasons)
    except (yaml.YAMLError, msgspec.ValidationError):
        raise EvidenceError(f"{WHY} is not of the form `workload: {{mode: cause}}`", f"repair {WHY}") from None


def _causes(given: SharingRequest) -> dict[tuple[str, str], set[str]]:
    """Returns (workload, mode) → the causes that plans name against it."""
    found: dict[tuple[str, str], set[str]] = {}
    uses = ["", *TRIED]
    for plan in (plan_sharing(_with_use(given, use)) for use in uses):
        for each in plan.workloads:
            for no in each.rejections:
                for mode in Mode:
                    if no.use.partition(" ")[0] == mode:
                        found.setdefault((no.workload, mode), set()).add(str(no.cause))
    return found


def _with_use(given: SharingRequest, use: str) -> SharingRequest:
    return replace(given, workloads=tuple(replace(each, use=use) for each in given.workloads))
