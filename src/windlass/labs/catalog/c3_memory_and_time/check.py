"""Check of C3: jobs of the same training, told apart by the work they did, compared in memory and losses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from windlass.labs.evidence.findings import Finding
from windlass.labs.evidence.job_records import LabJob
from windlass.labs.evidence.lab import Lab
from windlass.labs.evidence.losses import are_equal

GLOBAL_BATCH = 16
TOLERANCE = 1e-5
BUDGET = 0.5
STEP_SERIES = "windlass_rank_step_seconds"
RUN = "windlass run -- python train.py"


@dataclass(frozen=True, slots=True)
class Run:
    """A report: work and cost of one step, and the loss of each step."""

    number_format: str
    peak_mib: float
    step_ms: float
    passes: float
    """Forward passes of the model in a step."""
    block_runs: float
    """Computations of each block in a pass: 2 where the backward pass computes it again."""
    sequences: float
    losses: tuple[float, ...]

    @property
    def is_plain(self) -> bool:
        """Whether the whole batch went through the model at once, in fp32, and nothing was computed twice."""
        return self.number_format == "float32" and self.passes == 1 == self.block_runs

    @property
    def cost(self) -> str:
        """Peak and time, for a finding."""
        return f"{self.peak_mib:.0f} MiB, {self.step_ms:.0f} ms of CPU time a step"


def check(lab: Lab) -> Iterator[Finding]:
    """Looks at the plain run, at each technique, and at the losses of a run within the budget."""
    jobs = [job for job in lab.jobs() if job.succeeded]
    reports = [(job, run) for job in reversed(jobs) if (run := lab.report(job.id, Run)) is not None]
    # 1. the reference, with its telemetry
    yield Finding(bool(reports), "a job has succeeded and written its report", _first_job(jobs))
    plain = next(((job, run) for job, run in reports if run.is_plain and run.sequences == GLOBAL_BATCH), None)
    fix = f"no run computes all {GLOBAL_BATCH} sequences in one pass, in fp32, without recomputation; run: {RUN}"
    yield Finding(plain is not None, "a plain run is the reference", fix)
    if plain is None:
        return
    job, reference = plain
    yield Finding(
        STEP_SERIES in lab.metrics(job.id),
        f"telemetry has recorded the steps of {job.id}: {reference.cost}",
        _unrecorded(job),
    )
    # 2. each technique
    yield from _techniques([run for _, run in reports], reference)
    # 3. the budget, without other losses
    yield _within_budget(reports, reference)


def _unrecorded(job: LabJob) -> str:
    if "torchrun" in job.command:
        return f"ranks that torchrun starts report no steps to Windlass, so {job.id} has none; run: {RUN}"
    return f"{job.id} has no recorded steps: raise STEPS in train.py, and run each training again"


def _first_job(jobs: Sequence[LabJob]) -> str:
    if not jobs:
        return f"run: {RUN}"
    return f"runs/{jobs[-1].id}.json is missing, or is not the report that {jobs[-1].id} wrote; run: {RUN}"


def _techniques(runs: Sequence[Run], reference: Run) -> Iterator[Finding]:
    """Yields whether accumulation, recomputation and bf16 were measured, and what they cost."""
    smaller = next((run for run in runs if run.sequences < GLOBAL_BATCH), None)
    whole = [run for run in runs if run.sequences == GLOBAL_BATCH]
    accumulated = next((run for run in whole if run.passes > 1), None)
    fix = f"accumulate gradients over several passes in a step; run: {RUN} --micro-batch 4"
    if smaller is not None:
        fix = (
            f"a run has steps of {smaller.sequences:g} sequences: a smaller batch is another training. Keep the "
            f"global batch of {GLOBAL_BATCH} and divide the passes; run: {RUN} --micro-batch 4"
        )
    yield _measured("accumulation", accumulated, reference, fix)
    recomputed = next((run for run in whole if run.block_runs > 1 and run.passes == 1), None) or next(
        (run for run in whole if run.block_runs > 1), None
    )
    fix = f"compute blocks again, in steps of {GLOBAL_BATCH} sequences; run: {RUN} --ac full"
    yield _measured("recomputation", recomputed, reference, fix)
    low = next((run for run in whole if run.number_format == "bfloat16"), None)
    fix = f"no run of {GLOBAL_BATCH} sequences computes its matrix products in bf16; run: {RUN} --precision bf16"
    yield Finding(low is not None, f"AMP: {low.cost}" if low else "AMP is measured", fix)


def _measured(name: str, run: Run | None, reference: Run, fix: str) -> Finding:
    """Whether a technique was measured, and lowered the peak."""
    if run is None:
        return Finding(met=False, what=f"{name} is measured", fix=fix)
    return Finding(
        run.peak_mib < reference.peak_mib,
        f"{name}: {run.cost}",
        f"its peak is not below the {reference.peak_mib:.0f} MiB of the plain run; {fix}",
    )


def _within_budget(reports: Sequence[tuple[LabJob, Run]], reference: Run) -> Finding:
    """Whether a run needs at most half of the memory and has the losses of the reference."""
    budget = BUDGET * reference.peak_mib
    small = [(job, run) for job, run in reports if run.peak_mib <= budget]
    equal = [(job, run) for job, run in small if are_equal(run.losses, reference.losses, TOLERANCE)]
    what = f"a run stays below {budget:.0f} MiB, with the losses of the plain run"
    if equal:
        job, run = min(equal, key=lambda each: each[1].step_ms)
        return Finding(met=True, what=f"{what}: {job.id}, {run.cost}")
    if not small:
        return Finding(met=False, what=what, fix=f"no run does: combine two techniques; run: {RUN} --help")
    job, run = small[0]
    return Finding(
        met=False,
        what=what,
        fix=f"{job.id} stays below it, but its losses differ: {_shown(run.losses)} instead of "
        f"{_shown(reference.losses)}. Stay in fp32 with the same batch; if train.py changed, run {RUN} again",
    )


def _shown(losses: Sequence[float]) -> str:
    return " ".join(f"{loss:.5f}" for loss in losses[-3:])
