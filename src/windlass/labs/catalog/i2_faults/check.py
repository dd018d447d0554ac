"""Check of I2: the transitions of the faulted job, and the samples of every step beside those of an undisturbed run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from windlass.labs.evidence.findings import EvidenceError, Finding
from windlass.labs.evidence.job_records import LabJob
from windlass.labs.evidence.lab import Lab

FAULTED = "windlass submit --name faulted -N 1:2 -G 1 --restarts 2 -- python train.py --to runs/faulted"
AGAIN = "windlass submit --name again -N 1:2 -G 1 --restarts 2 -- python train.py --to runs/again --steps 300"
URGENT = "windlass run --name urgent --priority 10 -G 1 -- sh urgent.sh"
SAVED_AND_LEFT = 83


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of a job: the samples of each, and the numbers of ranks that did it."""

    samples: Mapping[int, frozenset[int]]
    ranks: Mapping[int, frozenset[int]]


def check(lab: Lab) -> Iterator[Finding]:
    """Looks at the elastic job that has met most faults, the newest of equals, and at the undisturbed run."""
    # 1. the job
    jobs = [job for job in lab.jobs() if "train.py" in job.command]
    elastic = [job for job in reversed(jobs) if _events(job)]
    job = max(elastic, key=lambda each: sum(fault.met for fault in _faults(each, _steps(lab, each))), default=None)
    yield Finding(job is not None, "a training has met a fault", f"run: {FAULTED}, and then kill one of its ranks")
    if job is None:
        return
    # 2. the three faults
    steps = _steps(lab, job)
    yield from _faults(job, steps)
    # 3. it has ended, with exact data
    yield Finding(job.succeeded, f"{job.id} has succeeded", f"it is {job.phase}: {job.message or 'wait for its end'}")
    if not job.succeeded:
        return
    yield from _exact(lab, job, steps, jobs)


def _faults(job: LabJob, steps: Steps) -> Iterator[Finding]:
    events = _events(job)
    has_ended = job.phase in ("Succeeded", "Failed", "Cancelled")
    when = f"it has ended; submit another one: {AGAIN}; and while that runs" if has_ended else "while it runs"
    name = "again" if has_ended else job.name
    yield Finding(
        any(event.startswith("rank") for event in events),
        f"{job.id} has lost a rank and recovered in place",
        f"{when}: kill -9 $(python pids.py {name} rank 1). A killed agent is a lost node, which is step 3",
    )
    yield Finding(
        any(event.startswith("node") for event in events),
        f"{job.id} has lost a node and started again",
        f"{when}: kill -9 $(python pids.py {name} agent 1)",
    )
    yield Finding(
        any(event.startswith("eviction") for event in events),
        f"{job.id} has given a node to a more urgent job",
        f"{when}: {URGENT}",
    )
    yield Finding(
        any(start.code == SAVED_AND_LEFT for start in job.starts),
        f"{job.id} saved after SIGTERM, and left with exit code {SAVED_AND_LEFT}",
        f"no rank has saved and left: it was evicted while it started. Wait for its first steps; {when}: {URGENT}",
    )
    yield Finding(
        any(1 in ranks for ranks in steps.ranks.values()),
        f"{job.id} trained on one node meanwhile",
        f"it made no step on one node: the urgent job has to run until then, as urgent.sh does; {when}: {URGENT}",
    )
    yield Finding(
        any(event.startswith("growth") for event in events),
        f"{job.id} grew again when the node was free",
        "it has not grown: it has to run on when the urgent job ends, so submit it again with more --steps",
    )


def _exact(lab: Lab, job: LabJob, steps: Steps, jobs: Sequence[LabJob]) -> Iterator[Finding]:
    last = max(steps.samples, default=0)
    undisturbed = [_steps(lab, each) for each in reversed(jobs) if each.succeeded and not _events(each)]
    plain = next((each for each in undisturbed if set(each.samples) == set(range(last + 1))), None)
    yield Finding(
        plain is not None,
        f"a run of {last + 1} steps was not disturbed",
        f"run: windlass run --name plain -G 1 -- python train.py --to runs/plain --steps {last + 1} --pause 0",
    )
    if plain is None:
        return
    differing = [step for step in range(last + 1) if steps.samples.get(step) != plain.samples[step]]
    yield Finding(
        not differing,
        f"every step of {job.id} has the samples of the undisturbed run",
        f"step {differing[0] + 1} has others: both need the same train.py and the same data, each in a folder of its "
        "own in --to"
        if differing
        else "",
    )


def _events(job: LabJob) -> list[str]:
    """Returns the faults of a job, each with its kind in front."""
    found = []
    for change in job.transitions:
        if change.event == "Recovered":
            found.append(f"rank {change.message}")
        elif change.event == "Resized":
            found.append(("eviction " if "makes room" in change.message else "growth ") + change.message)
        elif change.event == "Preempted":
            found.append(f"eviction {change.message}")
    return found + [f"node {start.node}" for start in job.starts if start.signal]


def _steps(lab: Lab, job: LabJob) -> Steps:
    """Returns the samples that the ranks of a job noted, step by step. Raises EvidenceError."""
    name = f"samples/{job.id}.jsonl"
    samples: dict[int, set[int]] = {}
    ranks: dict[int, set[int]] = {}
    try:
        for line in (lab.file(name) or "").splitlines():
            noted = json.loads(line)
            samples.setdefault(int(noted["step"]), set()).update(map(int, noted["samples"]))
            ranks.setdefault(int(noted["step"]), set()).add(int(noted["ranks"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        raise EvidenceError(f"{name} is not what train.py writes", f"remove it, and train again: rm {name}") from None
    return Steps(
        {step: frozenset(found) for step, found in samples.items()},
        {step: frozenset(found) for step, found in ranks.items()},
    )
