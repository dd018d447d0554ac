"""Check of D1: what each rank holds under DDP and FSDP, a limit that only FSDP meets, and a resume on other ranks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from windlass.labs.evidence.findings import Finding
from windlass.labs.evidence.lab import Lab
from windlass.labs.evidence.losses import are_equal

BYTES = 4
"""Of a parameter in fp32."""
TOLERANCE = 1e-4
EVEN = 1.05
"""Largest share of a rank, as a multiple of an even one."""
RUN = "windlass run --local-gpus 2 -G 2"
DDP, FSDP = "-- python train.py", "-- python train.py --parallel fsdp"
LIMIT = "--env MEMORY_MIB=300"
FAILURE = "can't allocate memory"


@dataclass(frozen=True, slots=True)
class RankMemory:
    """Bytes that one rank holds after a step, and the peak of its memory."""

    peak_mib: float
    parameters: int
    gradients: int
    averages: int


@dataclass(frozen=True, slots=True)
class Run:
    """A report. `start`, `end`: digests of all parameters. `limit_mib` 0: no limit."""

    parallel: str
    limit_mib: int
    elements: int
    losses: tuple[float, ...]
    start: str
    end: str
    gathers: int
    scatters: int
    ranks: tuple[RankMemory, ...]

    @property
    def share(self) -> float:
        """Largest part of the parameters that one rank holds."""
        return max(rank.parameters for rank in self.ranks) / (BYTES * self.elements)

    @property
    def is_sharded(self) -> bool:
        """Whether each rank holds an even part of the parameters."""
        return len(self.ranks) > 1 and self.share * len(self.ranks) <= EVEN

    @property
    def peak(self) -> float:
        """Highest peak of a rank in MiB."""
        return max(rank.peak_mib for rank in self.ranks)


def check(lab: Lab) -> Iterator[Finding]:
    """Looks at DDP, FSDP, the limit, resharding after the forward pass, and the checkpoint on other ranks."""
    runs = [
        run for job in reversed(lab.jobs()) if job.succeeded and (run := lab.report(job.id, Run)) and len(run.ranks) > 1
    ]
    # 1. DDP is the reference
    ddp = next((run for run in runs if run.parallel == "ddp" and run.share == 1), None)
    what = "under DDP each rank holds the whole model" + (f": peak {ddp.peak:.0f} MiB" if ddp else "")
    yield Finding(ddp is not None, what, f"no job of two ranks or more has done so; run: {RUN} {DDP}")
    if ddp is None:
        return
    # 2. FSDP holds parts, and computes the same
    sharded = [run for run in runs if run.is_sharded]
    yield from _is_fully_sharded(runs, sharded, ddp)
    # 3. a limit that DDP exceeds
    yield from _limited(lab, sharded, ddp)
    # 4. what is given away between the passes, and 5. other ranks
    yield from _resharded(sharded)
    yield _resumed(runs)


def _computes_the_same(run: Run, ddp: Run) -> bool:
    """Whether a run begins with the parameters of the DDP run, and has its losses."""
    return run.start == ddp.start and are_equal(run.losses, ddp.losses, TOLERANCE)


def _is_fully_sharded(runs: Sequence[Run], sharded: Sequence[Run], ddp: Run) -> Iterator[Finding]:
    """Yields whether parameters are sharded in groups, and the losses stay those of DDP."""
    fix = f"write shard in train.py, and run: {RUN} {FSDP}"
    if not sharded and any(run.parallel == "fsdp" for run in runs):
        fix = "each rank holds the whole model still: shard has to call fully_shard for each block and for the model"
        if any(run.elements < ddp.elements for run in runs if run.parallel == "fsdp"):
            fix = "the report cannot read the older FullyShardedDataParallel: let shard call fully_shard"
    yield Finding(bool(sharded), "under FSDP each rank holds an even part of the model", fix)
    if not sharded:
        return
    grouped = [run for run in sharded if run.scatters > 1]
    yield Finding(
        bool(grouped),
        f"the model is gathered in parts, at a peak of {min(run.peak for run in grouped or sharded):.0f} MiB",
        "a step gathers the whole model at once, so that every rank holds all of it again while it computes: "
        "call fully_shard for each block before the model",
    )
    fix = f"no FSDP run begins and goes on as the DDP run: their losses differ; run {RUN} {DDP} and {RUN} {FSDP} again"
    equal = any(_computes_the_same(run, ddp) for run in grouped)
    yield Finding(equal, "FSDP has the losses of DDP", fix)


def _limited(lab: Lab, sharded: Sequence[Run], ddp: Run) -> Iterator[Finding]:
    """Yields whether DDP failed for lack of memory, and an FSDP run with its losses kept the same limit."""
    limits = [limit for job in lab.jobs() if job.phase == "Failed" and (limit := _limit_exceeded(lab, job.id))]
    yield Finding(
        bool(limits),
        "DDP fails under a memory limit",
        f"no DDP job has failed for lack of memory: set a limit between both peaks; run: {RUN} {LIMIT} {DDP}",
    )
    if not limits:
        return
    highest, peak = max(limits), min((run.peak for run in sharded if not run.limit_mib), default=0)
    again = f"run: {RUN} --env MEMORY_MIB={highest} {FSDP} --save"
    fix = f"no FSDP run has succeeded within it; {again}"
    within = [run for run in sharded if 0 < run.limit_mib <= highest]
    if within:
        fix = f"the FSDP run within it has other losses than DDP: run both with the same train.py; {again}"
    if highest < peak:
        fix = (
            f"the peak of FSDP is {peak:.0f} MiB, so it does not fit either: set a limit between both peaks for both; "
            f"run: {RUN} {LIMIT} {DDP}, then {RUN} {LIMIT} {FSDP} --save"
        )
    yield Finding(
        any(_computes_the_same(run, ddp) for run in within), f"FSDP trains within the limit of {highest} MiB", fix
    )


def _limit_exceeded(lab: Lab, job: str) -> int:
    """Returns the limit in MiB at which a DDP job failed to allocate; 0 if it did not."""
    lines = lab.logs(job)
    starts = [line for line in lines if line.startswith("ddp on ") and line.endswith(" MiB")]
    limit = starts[0].split()[-2] if starts else ""
    return int(limit) if limit.isdecimal() and any(FAILURE in line for line in lines) else 0


def _resharded(sharded: Sequence[Run]) -> Iterator[Finding]:
    """Yields whether blocks were gathered twice in a step of one run, and once in another."""
    twice = [run for run in sharded if run.gathers > run.scatters > 1]
    once = [run for run in sharded if run.gathers == run.scatters > 1]
    yield Finding(
        bool(twice),
        "resharded after the forward pass: each block is gathered for both passes",
        f"pass reshard_after_forward=True to fully_shard of each block, and run: {RUN} {FSDP}",
    )
    saved = f"{once[0].gathers} all-gathers, peak {once[0].peak:.0f} MiB" if once else "one all-gather of each block"
    yield Finding(
        bool(once),
        f"kept for the backward pass: {saved}",
        f"no run keeps gathered blocks: pass reshard_after_forward=reshard, and run: {RUN} {FSDP} --no-reshard",
    )


def _resumed(runs: Sequence[Run]) -> Finding:
    """Whether a run began with the parameters at the end of a run on another number of ranks."""
    ends = {run.end: len(run.ranks) for run in runs}
    resumed = [run for run in runs if run.start in ends]
    fix = (
        f"no run begins where another ended: save one by {RUN} {FSDP} --save, then run: "
        f"windlass run --local-gpus 4 -G 4 {FSDP} --resume"
    )
    if resumed and len(resumed[0].ranks) == ends[resumed[0].start]:
        fix = f"the resumed run has {len(resumed[0].ranks)} ranks as before: resume it on another number of ranks"
    return Finding(
        any(len(run.ranks) != ends[run.start] for run in resumed),
        "a run goes on from the checkpoint of another number of ranks, with equal parameters",
        fix,
    )
