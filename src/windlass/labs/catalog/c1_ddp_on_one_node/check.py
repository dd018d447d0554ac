"""Check of C1: three runs of the same training, compared sample by sample and loss by loss."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from windlass.labs.evidence.findings import Finding
from windlass.labs.evidence.lab import Lab
from windlass.labs.evidence.losses import are_equal

SAMPLES = 256
TOLERANCE = 1e-9
ONE_PROCESS, TORCHRUN = "python train.py", "torchrun --nproc-per-node 2 train.py"
WINDLASS = "windlass run --local-gpus 2 -G 2 -- python train.py"


@dataclass(frozen=True, slots=True)
class RankReport:
    """The part of one rank in a run: samples and mean loss of each epoch."""

    rank: int
    samples: tuple[tuple[int, ...], ...]
    losses: tuple[float, ...]
    steps: tuple[int, ...]
    parameters: str


@dataclass(frozen=True, slots=True)
class Run:
    """A file in `runs/`."""

    launcher: str
    world: int
    ranks: tuple[RankReport, ...]

    @property
    def losses(self) -> list[float]:
        """The loss of each epoch, averaged over the ranks."""
        return [sum(losses) / len(losses) for losses in zip(*(rank.losses for rank in self.ranks), strict=True)]


def check(lab: Lab) -> Iterator[Finding]:
    """Looks at the run of one process, of torchrun and of `windlass run`, in this order."""
    # 1. the reference
    launched = _of_most_ranks(_runs(lab, "torchrun-*"))
    one = _reference(_runs(lab, "*"), launched)
    yield Finding(one is not None, "a run of one process is the reference", f"run: {ONE_PROCESS}")
    # 2. torchrun
    yield Finding(launched is not None, "torchrun has run two ranks or more", f"run: {TORCHRUN}")
    if one is None or launched is None:
        return
    yield from _compare(one, launched, "torchrun")
    # 3. windlass run: the job's record, and the file that its log names with a digest
    job = next((each for each in reversed(lab.jobs()) if each.succeeded and each.ranks > 1), None)
    yield Finding(job is not None, "a job of two ranks or more has succeeded", f"run: {WINDLASS}")
    if job is None:
        return
    report = lab.report(job.id, Run)
    run = report if report and _is_whole(report) else None
    yield Finding(
        run is not None, f"{job.id} wrote its report", f"runs/{job.id}.json is not its report; run: {WINDLASS}"
    )
    if run is not None:
        yield from _compare(one, run, job.id)


def _compare(one: Run, run: Run, name: str) -> Iterator[Finding]:
    """Yields the facts that make several ranks equal to one process."""
    yield _divided(run, name)
    yield Finding(
        all(len({epoch[:16] for epoch in rank.samples}) == len(rank.samples) for rank in run.ranks),
        f"{name}: each epoch has another order",
        "the order of the samples is the same in every epoch: call sampler.set_epoch(epoch) as each epoch begins",
    )
    steps = [report.steps for report in (one.ranks[0], run.ranks[0])]
    yield Finding(
        steps[0] == steps[1],
        f"{name}: {run.world} ranks take as many steps as one process",
        f"one process takes {steps[0][0]} steps in an epoch, {name} {steps[1][0]}: the batch of a rank is the "
        f"global batch divided by the number of ranks. Then run {ONE_PROCESS} again",
    )
    yield Finding(
        len({rank.parameters for rank in run.ranks}) == 1,
        f"{name}: all ranks have equal parameters at the end",
        "the ranks have trained different models: wrap the model in DistributedDataParallel",
    )
    yield Finding(
        are_equal(one.losses, run.losses, TOLERANCE),
        f"{name}: the losses equal those of one process",
        f"the losses differ: {_shown(one.losses)} in one process, {_shown(run.losses)} in {name}. If {ONE_PROCESS} ran "
        "before your last change, run it again: the reference has to come from the same code",
    )


def _divided(run: Run, name: str) -> Finding:
    """Whether each sample is read by exactly one rank in every epoch."""
    what = f"{name}: each sample is read once in an epoch"
    for number, epoch in enumerate(zip(*(rank.samples for rank in run.ranks), strict=True), 1):
        counts = Counter(sample for part in epoch for sample in part)
        twice = sum(count > 1 for count in counts.values())
        missing = SAMPLES - len(counts)
        if twice == SAMPLES:
            fix = f"every rank read all samples in epoch {number}: divide them by a DistributedSampler"
            return Finding(met=False, what=what, fix=fix)
        if twice or missing:
            fix = (
                f"in epoch {number} {twice} samples were read more than once and {missing} by no rank: the samplers of "
                "all ranks need the same seed, and each rank its own part of that order"
            )
            return Finding(met=False, what=what, fix=fix)
    return Finding(met=True, what=what)


def _runs(lab: Lab, pattern: str) -> list[Run]:
    """Returns the whole reports in files of this name."""
    runs = (lab.record(name, Run) for name in lab.files(f"runs/{pattern}.json"))
    return [run for run in runs if run and _is_whole(run)]


def _of_most_ranks(runs: Sequence[Run]) -> Run | None:
    return max((run for run in runs if run.world > 1), key=lambda run: run.world, default=None)


def _reference(runs: Sequence[Run], launched: Run | None) -> Run | None:
    """Returns the run of one process, by any launcher: of several the one that has the losses of `launched`."""
    alone = sorted((run for run in runs if run.world == 1), key=lambda run: run.launcher != "python")
    same = [run for run in alone if launched and are_equal(run.losses, launched.losses, TOLERANCE)]
    return next(iter([*same, *alone]), None)


def _is_whole(run: Run) -> bool:
    """Whether a file has a report of every rank, and of equally many epochs of each."""
    epochs = {len(part) for rank in run.ranks for part in (rank.samples, rank.losses, rank.steps)}
    return run.world == len(run.ranks) > 0 and len(epochs) == 1 and epochs != {0}


def _shown(losses: Sequence[float]) -> str:
    return " ".join(f"{loss:.6f}" for loss in losses)
