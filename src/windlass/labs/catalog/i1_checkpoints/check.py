"""Check of I1: the parameters of four runs, compared by their digests, and checkpoints verified byte by byte."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from windlass.labs.evidence.findings import Finding
from windlass.labs.evidence.job_records import LabJob
from windlass.labs.evidence.lab import Lab

TRAINED = re.compile(r"trained parameters (\w+), rank 0 holds ([\d,]+) of ([\d,]+) numbers")
RESTORED = re.compile(r"restored parameters (\w+), from by-hand/")
PLACE = re.compile(r"checkpoints in (.+), (?:every|at the interval)")
RESUMED = re.compile(r"resumed after step (\d+)")
END = re.compile(r"step (\d+): parameters (\w+)")
BY_HAND = "windlass run --local-gpus 2 -G 2 -- python by_hand.py"
RESTORE = "windlass run --local-gpus 2 -- python restore.py"
TRAIN = "windlass run --local-gpus 2 -G 2 -- python train.py --to"
HAS_S3 = all(find_spec(name) for name in ("moto", "s3fs"))


@dataclass(frozen=True, slots=True)
class Run:
    """A finished job of train.py, by the lines of its log."""

    job: str
    place: str
    steps: int
    parameters: str
    resumed: int | None
    skipped: bool


def check(lab: Lab) -> Iterator[Finding]:
    """Looks at the checkpoint by hand, then at the run that fell back, then at the undisturbed run."""
    jobs = [job for job in lab.jobs() if job.succeeded]
    # 1. a checkpoint by hand, restored in one process
    yield from _by_hand(lab, jobs)
    # 2. a damaged checkpoint, and the run that fell back to an older one
    runs = [run for job in jobs if (run := _run_of(lab, job))]
    yield Finding(bool(runs), "train.py has saved checkpoints", f"run: {TRAIN} runs/first --steps 40")
    fallen = next((run for run in reversed(runs) if run.skipped and run.resumed), None)
    yield Finding(
        fallen is not None,
        "a run has skipped a damaged checkpoint and resumed from an older one",
        "change a byte in a file of the newest checkpoint, and run train.py with the same --to and more --steps. A "
        "checkpoint that is removed is not a damaged one",
    )
    if fallen is None:
        return
    yield from _good_again(lab, fallen)
    # 3. the undisturbed run
    yield from _undisturbed(fallen, runs)


def _by_hand(lab: Lab, jobs: Sequence[LabJob]) -> Iterator[Finding]:
    trained = _newest_line(lab, [job for job in jobs if job.ranks > 1], TRAINED)
    yield Finding(trained is not None, "two ranks or more have written a checkpoint by hand", f"run: {BY_HAND}")
    if trained is None:
        return
    parameters, held, whole = trained.groups()
    yield Finding(
        held != whole,
        f"the parameters are sharded: rank 0 holds {held} of {whole} numbers",
        "rank 0 holds all parameters: put fully_shard back. The lab is about a model that no rank can hold alone",
    )
    restored = _newest_line(lab, [job for job in jobs if "restore.py" in job.command], RESTORED)
    yield Finding(
        restored is not None,
        "restore.py has restored a checkpoint in one process",
        f"run: {RESTORE}. If it fails: rank 0 writes its own part alone, so change save() in by_hand.py",
    )
    yield Finding(
        restored is not None and restored[1] == parameters,
        "the restored parameters are those that by_hand.py trained",
        f"by_hand.py trained {parameters}: run it and restore.py again, in this order",
    )


def _good_again(lab: Lab, fallen: Run) -> Iterator[Finding]:
    folder = lab.folders.learner(lab.id)
    inside = Path(fallen.place).is_relative_to(folder)
    yield Finding(inside, f"{fallen.job} saved into the lab's folder", f"run: {TRAIN} runs/first --steps 60")
    if inside:
        found = lab.checkpoints(str(Path(fallen.place).relative_to(folder)))
        bad = [each.folder for each in found if not each.is_good]
        yield Finding(
            bool(found) and not bad,
            f"{len(found)} checkpoints there are good, every byte of them",
            f"{', '.join(bad) or 'none'} is not good: run train.py there again with more --steps; it passes over what "
            "is damaged, and removes it",
        )


def _undisturbed(fallen: Run, runs: Sequence[Run]) -> Iterator[Finding]:
    where = "s3://labs/whole" if HAS_S3 else "runs/whole"
    whole = [run for run in runs if run.resumed is None and run.steps == fallen.steps]
    saved = [run for run in whole if run.place.startswith("s3://") or not HAS_S3]
    yield Finding(
        bool(saved),
        f"a run of {fallen.steps} steps without a restart" + (" has saved into a bucket" if HAS_S3 else ""),
        f"{'with the variables of s3.env, ' if HAS_S3 else ''}run: {TRAIN} {where} --steps {fallen.steps}. The place "
        "has to be a new one: a place with checkpoints is resumed",
    )
    if saved:
        # a run of an earlier train.py does not refuse one of the present
        run = next((run for run in reversed(saved) if run.parameters == fallen.parameters), saved[-1])
        yield Finding(
            run.parameters == fallen.parameters,
            f"{run.job}: the parameters equal those of {fallen.job}, bit by bit",
            f"they are {run.parameters} and {fallen.parameters}: use the same train.py, data and number of ranks",
        )


def _run_of(lab: Lab, job: LabJob) -> Run | None:
    """Returns what a job of train.py printed; None of another job."""
    lines = lab.logs(job.id, rank=0)
    place, end = (_first(pattern, lines) for pattern in (PLACE, END))
    if place is None or end is None:
        return None
    resumed = _first(RESUMED, lines)
    skipped = any(": skipping step-" in line for line in lines)
    return Run(job.id, place[1], int(end[1]), end[2], int(resumed[1]) if resumed else None, skipped)


def _newest_line(lab: Lab, jobs: Sequence[LabJob], pattern: re.Pattern[str]) -> re.Match[str] | None:
    found = (_first(pattern, lab.logs(job.id, rank=0)) for job in reversed(jobs))
    return next((match for match in found if match), None)


def _first(pattern: re.Pattern[str], lines: Sequence[str]) -> re.Match[str] | None:
    return next((match for line in lines if (match := pattern.search(line))), None)
