"""Check of D2: the bubble of a pipeline, its prediction and its memory, and a 2x2x2 mesh with equal losses."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from windlass.labs.evidence.findings import Finding
from windlass.labs.evidence.lab import Lab
from windlass.labs.evidence.losses import are_equal

LIMIT = 0.25
"""Largest bubble of the step that the learner chooses."""
CLOSE = 0.08
"""Largest difference of a measured bubble and the formula."""
TOLERANCE = 1e-4
UNEVEN = 0.75
"""Largest part of a stage that a rank holds: half of it where matrices are split in two, and whole norms."""
AXES = ("pp", "dp", "tp")
STAGES = "windlass run --procs 4 --cpus 0 --mesh pp=4 -- python pipeline.py"
MESH = "windlass run -N 2 --local-nodes 2 --exclusive --procs 4 --cpus 0 --mesh pp=2,dp=2,tp=2 -- python train.py"


@dataclass(frozen=True, slots=True)
class MeasuredStep:
    """One measured step. `held`: micro-batches that each stage holds at most. `predicted`: by the learner's formula."""

    schedule: str
    micro_batches: int
    predicted: float | None
    bubble: float
    step_s: float
    held: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A report of pipeline.py."""

    stages: int
    rows: tuple[MeasuredStep, ...]

    @property
    def plain(self) -> list[MeasuredStep]:
        """Steps by schedules with one stage on each rank, whose bubble the formula predicts."""
        return [row for row in self.rows if row.schedule in ("1f1b", "gpipe") and row.micro_batches > 0]


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages that a rank sends on one axis in a step."""

    messages: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Piece:
    """Coordinates of one rank, its node, and the shapes that it holds."""

    pp: int
    dp: int
    tp: int
    node: int
    shapes: dict[str, tuple[int, ...]]
    sent: dict[str, Messages]

    @property
    def elements(self) -> int:
        """Number of parameters that the rank holds."""
        return sum(math.prod(shape) for shape in self.shapes.values())


@dataclass(frozen=True, slots=True)
class Training:
    """A report of train.py."""

    mesh: dict[str, int]
    losses: tuple[float, ...]
    ranks: tuple[Piece, ...]


def check(lab: Lab) -> Iterator[Finding]:
    """Looks at the bubble, its prediction, the chosen step, activations, and the mesh of eight ranks."""
    pipelines, trainings = _reports(lab)
    # 1. the bubble is measured, and 2. predicted
    yield _is_measured(pipelines)
    yield _is_predicted(pipelines)
    # 3. a small bubble, and 4. what it costs in memory
    yield _is_small(pipelines)
    yield _holds_less(pipelines)
    # 5. three dimensions
    yield from _splits(trainings)


def _reports(lab: Lab) -> tuple[list[Pipeline], dict[str, Training]]:
    """Returns the reports of succeeded jobs of both programs, newest first; those of train.py by job."""
    pipelines, trainings = list[Pipeline](), dict[str, Training]()
    for job in reversed(lab.jobs()):
        if not job.succeeded:
            continue
        content = lab.json(f"runs/{job.id}.json")
        if isinstance(content, dict) and "stages" in content:
            pipelines += [run] if (run := lab.report(job.id, Pipeline)) and run.stages > 1 else []
        elif content is not None:
            trainings |= {job.id: found} if (found := lab.report(job.id, Training)) and found.ranks else {}
    return pipelines, trainings


def _is_measured(runs: Sequence[Pipeline]) -> Finding:
    """Whether the bubble was measured for several numbers of micro-batches, and shrinks with them."""
    for run in runs:
        rows = sorted(run.plain, key=lambda row: row.micro_batches)
        if len({row.micro_batches for row in rows}) > 1 and rows[-1].bubble < rows[0].bubble:
            few, many = rows[0], rows[-1]
            counts = f"with {few.micro_batches} micro-batches to {many.bubble:.0%} with {many.micro_batches}"
            what = f"the bubble of {run.stages} stages shrinks from {few.bubble:.0%} {counts}"
            return Finding(met=True, what=what)
    return Finding(met=False, what="the bubble shrinks with more micro-batches", fix=f"measure it; run: {STAGES}")


def _is_predicted(runs: Sequence[Pipeline]) -> Finding:
    """Whether the learner's formula is the right one, and close to a step that was measured."""
    what = "the formula counts the turns of a step, and is close to a measured bubble"
    predicted = [(run.stages, row) for run in runs for row in run.plain if row.predicted is not None]
    if not predicted:
        fix = f"no step has a prediction: write predicted_bubble in pipeline.py, and run: {STAGES} --micro-batches 16"
        return Finding(met=False, what=what, fix=fix)
    right = [
        (stages, row)
        for stages, row in predicted
        if math.isclose(row.predicted or 0, _bubble(stages, row.micro_batches), rel_tol=0.01)
    ]
    if not right:
        stages, row = predicted[0]
        turns = f"{row.micro_batches + stages - 1} turns of a step, {_bubble(stages, row.micro_batches):.0%}"
        guess = f"a stage waits {stages - 1} of the {turns}, and {row.predicted:.0%} is predicted"
        fix = f"{guess}: divide what a stage waits by the whole step, not by its own work"
        return Finding(met=False, what=what, fix=fix)
    close = [(stages, row) for stages, row in right if abs(row.bubble - (row.predicted or 0)) <= CLOSE]
    fix = "the formula is right, and no measured step is close to it: the machine is too busy; run step 2 again later"
    return Finding(bool(close), what, fix)


def _bubble(stages: int, micro_batches: int) -> float:
    return (stages - 1) / (micro_batches + stages - 1)


def _is_small(runs: Sequence[Pipeline]) -> Finding:
    """Whether some step of at least four stages has a bubble below the limit; names the shortest such step."""
    rows = [row for run in runs for row in run.rows if run.stages >= 4]
    small = [row for row in rows if row.bubble <= LIMIT]
    if not small:
        measured = f"the smallest one so far is {min(row.bubble for row in rows):.0%}" if rows else "none was measured"
        fix = f"{measured}: solve the formula for the number of micro-batches; run: {STAGES} --micro-batches NUMBER"
        return Finding(met=False, what=f"a step of four stages has a bubble below {LIMIT:.0%}", fix=fix)
    best = min(small, key=lambda row: row.step_s)
    how = f"with {best.micro_batches} micro-batches by {best.schedule} in {best.step_s:.2f} s"
    return Finding(met=True, what=f"a step of four stages has a bubble of {best.bubble:.0%}, {how}")


def _holds_less(runs: Sequence[Pipeline]) -> Finding:
    """Whether GPipe and 1F1B were measured with equally many micro-batches, of which 1F1B held fewer."""
    held = {
        (row.schedule, row.micro_batches): max(row.held, default=0)
        for run in runs
        for row in run.plain
        if row.micro_batches > run.stages
    }
    both = [number for schedule, number in held if schedule == "1f1b" and ("gpipe", number) in held]
    less = [number for number in both if held["1f1b", number] < held["gpipe", number]]
    what = "1F1B holds fewer micro-batches than GPipe"
    if less:
        number = max(less)
        what += f": {held['1f1b', number]:g} of {number}, where GPipe holds {held['gpipe', number]:g}"
    fix = f"no number of micro-batches was measured by both; run: {STAGES} --micro-batches 16 --schedule 1f1b gpipe"
    return Finding(bool(less), what, fix)


def _splits(trainings: Mapping[str, Training]) -> Iterator[Finding]:
    """Yields whether one process and a mesh of three dimensions have equal losses, and where its pieces are."""
    single = [each for each in trainings.values() if len(each.ranks) == 1]
    yield Finding(
        bool(single), "one process is the reference", "no job of one process: run: windlass run -- python train.py"
    )
    cubes = {job: each for job, each in trainings.items() if all(each.mesh.get(axis, 1) > 1 for axis in AXES)}
    fix = f"no succeeded job has the mesh pp=2,dp=2,tp=2: write PLAN in train.py, and run: {MESH}"
    yield Finding(bool(cubes), "a job has stages, replicas and split matrices at once", fix)
    if single and cubes:
        # all facts about the pieces, the losses and the nodes are those of one job, and of one reference
        judged = [_judge(job, cube, one) for job, cube in cubes.items() for one in single]
        yield from max(judged, key=lambda findings: sum(finding.met for finding in findings))


def _judge(job: str, cube: Training, one: Training) -> tuple[Finding, ...]:
    """Returns what one job with a mesh of three dimensions shows, compared with a job of one process."""
    whole = one.ranks[0].elements
    split = _is_split(cube, whole)
    part = f"{max(piece.elements for piece in cube.ranks) / whole:.0%}" if split else "a part"
    equal = are_equal(one.losses, cube.losses, TOLERANCE)
    fix = f"the losses of one process and of the mesh differ: run both again with the same train.py; {MESH}"
    return (
        Finding(split, f"each rank of {job} holds {part} of the model", f"the pieces do not fit; run: {MESH}"),
        Finding(equal, f"{job} has the losses of one process", fix),
        _is_inside(job, cube),
    )


def _is_split(cube: Training, whole: int) -> bool:
    """Whether replicas hold the same shapes, stages other parameters, and no rank much more than its part."""
    pieces = {(piece.pp, piece.dp, piece.tp): piece for piece in cube.ranks}
    degrees = [cube.mesh[axis] for axis in AXES]
    if math.prod(degrees) != len(cube.ranks) or pieces.keys() != set(product(*map(range, degrees))):
        return False
    first = [piece for piece in cube.ranks if piece.dp == piece.tp == 0]
    names = [name for piece in first for name in piece.shapes]
    same = all(piece.shapes == pieces[piece.pp, 0, piece.tp].shapes for piece in cube.ranks)
    most = max(piece.elements for piece in cube.ranks)
    return same and len(set(names)) == len(names) and 0 < most < UNEVEN * whole / len(first)


def _is_inside(job: str, cube: Training) -> Finding:
    """Whether a job on several nodes has the axis that sends most often inside them."""
    several = len({piece.node for piece in cube.ranks}) > 1
    inside = several and _crossing(cube, "tp") == 0
    fix = f"all ranks were on one node, which has nothing to cross: run: {MESH}"
    if several:
        fix = f"ranks of one tp group are on different nodes: give each node as many ranks as tp, or more; run: {MESH}"
    what = f"tp, the axis with most messages, stays inside the nodes of {job}"
    if inside:
        sent = cube.ranks[-1].sent
        counts = ", ".join(f"{axis} {sent[axis].messages}" for axis in AXES if axis in sent)
        what = f"{what} (messages of a rank in a step: {counts})"
    return Finding(inside, what, fix)


def _crossing(cube: Training, axis: str) -> int:
    """Number of groups along an axis that have ranks on several nodes."""
    others = [other for other in AXES if other != axis]
    groups: dict[tuple[int, ...], set[int]] = {}
    for piece in cube.ranks:
        groups.setdefault(tuple(getattr(piece, other) for other in others), set()).add(piece.node)
    return sum(len(nodes) > 1 for nodes in groups.values())
