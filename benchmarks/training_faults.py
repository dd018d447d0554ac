"""A hundred random faults on a small GPT: losses against the run without faults, and the cost of each fault.

Sixteen runs under `windlass agent`, with checkpoints on a small disk or in an S3 API. Faults come from outside:
`tests/train/fault_injection` has the code, and a test of it. An agent that ends is started again, in two of the runs on
another mesh. The effect of a flipped bit on torch's DCP alone is measured for comparison. Arguments: the first seed,
and which runs.
"""

import contextlib
import json
import logging
import math
import random
import statistics
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests/kubernetes"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests/train"))

from fault_injection.faulted_run import FaultOutcome, RunOutcome, run_with_faults, run_without_faults
from fault_injection.faulty_storage import Bucket, Disk, damage_file, disk, saved_folder, store
from fault_injection.schedule import Fault, Kind, assign_faults, draw_faults, required_steps

from windlass.train.checkpoint.store.manifest import OBJECT, Manifest
from windlass.train.checkpoint.store.storage import open_storage
from windlass.train.checkpoint.store.verification import read_manifest, verify_files


class Case(NamedTuple):
    """One run. `then`: the mesh on which an agent that has ended restarts."""

    mesh: str
    place: str = "disk"
    then: str = ""


RUNS = (
    *(Case(mesh) for mesh in ("dp=2", "fsdp=2", "pp=2", "tp=2", "pp=2,dp=2", "fsdp=2,tp=2")),
    *(Case(mesh, "s3") for mesh in ("dp=2", "fsdp=2", "pp=2", "tp=2")),
    *(Case(mesh) for mesh in ("dp=2", "fsdp=2", "pp=2", "tp=2")),
    Case("dp=2", then="pp=2"),
    Case("fsdp=2", then="tp=2"),
)
BAG = {
    Kind.KILL: 12,
    Kind.KILL_WRITING: 10,
    Kind.KILL_AGENT: 8,
    Kind.STOP: 8,
    Kind.TERM: 8,
    Kind.TERM_AGENT: 6,
    Kind.TORN: 12,
    Kind.FLIP: 14,
    Kind.FULL: 8,
    Kind.S3_ERRORS: 4,
    Kind.S3_SLOW: 3,
    Kind.S3_CUT: 4,
    Kind.S3_LAG: 3,
}
"""The schedules of a hundred faults."""
CLOSE = 1e-6
"""Tolerance: on another mesh sums have another order; on the same one all bits are equal."""
FLIPS = 100


def main(seed: int = 1, *runs: int) -> None:
    hands = assign_faults(BAG, [case.place for case in RUNS], seed)
    plans = [draw_faults(hand, seed + number) for number, hand in enumerate(hands)]
    steps = max(map(required_steps, plans))
    with tempfile.TemporaryDirectory() as name, store() as port:
        calm: dict[str, dict[int, float]] = {}
        ended = []
        for number in runs or range(len(RUNS)):
            case = RUNS[number]
            if case.mesh not in calm:
                calm[case.mesh] = run_without_faults(case.mesh, f"{name}/{case.mesh}", steps)
            ended.append(Ended(case, *run_case(case, f"{name}/{number}", port, steps, plans[number])))
            print(describe(number, ended[-1], calm[case.mesh]), flush=True)
        conclude(ended, calm)
        compare_with_dcp(Path(name, next(iter(calm))), steps, seed)


class Ended(NamedTuple):
    """A run and its outcome."""

    case: Case
    plan: list[Fault]
    outcome: RunOutcome
    seconds: float

    def off(self, calm: dict[int, float]) -> float:
        """The largest difference of a step's loss."""
        return max(abs(loss - self.outcome.losses.get(step, math.inf)) for step, loss in calm.items())

    def is_right(self, calm: dict[int, float]) -> bool:
        """Whether the losses are those of the run without faults."""
        return self.off(calm) <= (CLOSE if self.case.then else 0.0)


def run_case(
    case: Case, folder: str, port: int, steps: int, plan: list[Fault]
) -> tuple[list[Fault], RunOutcome, float]:
    begun = time.monotonic()
    with contextlib.ExitStack() as stack:
        if case.place == "s3":
            storage: Bucket | Disk = Bucket(f"s3://bucket/{Path(folder).name}", port)
        else:
            storage = stack.enter_context(disk(Path(folder)))
            if not storage.can_be_filled:
                print("    only root may mount a small disk: none was filled")
                plan = [fault for fault in plan if fault.kind is not Kind.FULL]
        try:
            outcome = run_with_faults(case.mesh, storage, steps, plan, then=case.then)
        except (
            AssertionError,
            TimeoutError,
            OSError,
        ) as wrong:  # the other runs continue, and this one counts as failed
            print(f"    the run has not ended: {type(wrong).__name__}: {wrong}", file=sys.stderr)
            outcome = RunOutcome()
    return plan, outcome, time.monotonic() - begun


def describe(number: int, ended: Ended, calm: dict[int, float]) -> str:
    outcome = ended.outcome
    then = f" ⇄ {ended.case.then}" if ended.case.then else ""
    trouble = [f"LOST: {what}" for what in outcome.lost] + [f"LOADED: {what}" for what in outcome.loaded]
    return (
        f"run {number:2} {ended.case.mesh + then:14} {ended.case.place:4} "
        f"{len(outcome.faults)}/{len(ended.plan)} faults, {len(outcome.restarts)} more agents, "
        f"{outcome.skipped} damaged ones skipped, losses off by {ended.off(calm):.1e}, "
        f"{ended.seconds:.0f} s {'; '.join(trouble)}"
    )


def conclude(ended: list[Ended], calm: dict[str, dict[int, float]]) -> None:
    met = [each for run in ended for each in run.outcome.faults]
    print(*table(met), sep="\n")
    right = sum(len(run.outcome.faults) for run in ended if run.is_right(calm[run.case.mesh]))
    what = "seeded faults after which every loss equals that of the run without faults"
    print(json.dumps(claimed(what, right, "faults", sum(len(run.plan) for run in ended), "higher")))
    wrong = sum(len(run.outcome.lost) + len(run.outcome.loaded) for run in ended)
    print(json.dumps(claimed("checkpoints lost, or damaged and still loaded", wrong, "", 0, "lower")))
    stops = [each for each in met if each.fault.kind not in (Kind.STOP, Kind.FULL)]
    lost = [each.lost_s for each in stops if not math.isnan(each.lost_s)]
    if lost:
        what = "a fault that ends ranks or agents → first step that is new"
        print(json.dumps(claimed(what, statistics.median(lost), "s", 5.0, "lower")))


def table(met: list[FaultOutcome]) -> list[str]:
    rows = [f"{'fault':36} count   seconds until the first new step: median, worst"]
    for kind in Kind:
        seconds = [each.lost_s for each in met if each.fault.kind is kind]
        cost = "" if not seconds else "no wait"
        if seconds and not math.isnan(seconds[0]):
            cost = f"{statistics.median(seconds):6.2f} {max(seconds):6.2f}"
        rows.append(f"{kind:36} {len(seconds):5}   {cost}")
    return rows


def compare_with_dcp(place: Path, step: int, seed: int) -> None:
    """Flip one bit of one file of DCP repeatedly, and count detections by Windlass and by DCP's load."""
    storage, chance = Disk(str(place), can_be_filled=False), random.Random(seed)  # noqa: S311 - no secret
    folder = place / saved_folder(place, step)
    manifest = read_manifest(open_storage(str(place)), folder.name)
    assert manifest is not None
    logging.disable()  # torch logs each error
    names = [name for name in manifest.files if name.endswith((".distcp", ".metadata"))]
    ours = theirs = 0
    for _ in range(FLIPS):
        before = {name: storage.read(step, name) for name in names}
        name = damage_file(storage, step, torn=False, rng=chance, names=names)
        ours += bool(verify_files(open_storage(str(place)), folder.name, manifest, manifest.files))
        theirs += not loads(folder, manifest)
        storage.replace(step, name, before[name])
    logging.disable(logging.NOTSET)
    print(f"{FLIPS} bits flipped, each in one file of DCP's: windlass finds {ours}, loading with torch's DCP {theirs}")
    line = claimed("flipped bits that are found before anything is loaded", ours, "", FLIPS, "higher")
    print(json.dumps({**line, "peer": "torch's DCP", "peer_measured": theirs}))


def loads(folder: Path, manifest: Manifest) -> bool:
    """Return whether torch's DCP loads it without an error."""
    import torch  # noqa: PLC0415 - after the runs, because its import takes CPU time
    from torch.distributed.checkpoint import CheckpointException, FileSystemReader  # noqa: PLC0415
    from torch.distributed.checkpoint.state_dict_loader import load  # noqa: PLC0415

    state = {
        name: None if fact.dtype == OBJECT else torch.empty(fact.shape, dtype=getattr(torch, fact.dtype))
        for name, fact in manifest.tensors.items()
    }
    try:
        with warnings.catch_warnings(action="ignore"):
            load(state, storage_reader=FileSystemReader(folder), no_dist=True)
    except (Exception, CheckpointException):  # noqa: BLE001 - any error counts as a detection
        return False
    return True


def claimed(what: str, measured: float, unit: str, target: float, better: str) -> dict[str, Any]:
    return {"claim": what, "measured": measured, "unit": unit, "target": target, "better": better}


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
