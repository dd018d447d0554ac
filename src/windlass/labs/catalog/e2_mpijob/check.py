"""Check of E2: the report of all ranks in the launcher's log, compared with the same training in one process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from windlass.labs.evidence.findings import Finding
from windlass.labs.evidence.lab import Lab
from windlass.labs.evidence.pod_records import PodRecord, read_pods

STEPS, RATE = 20, 0.05
TOLERANCE = 1e-9


class MpiRank(msgspec.Struct):
    """The host of a rank, and its parameters at the end."""

    host: str
    parameters: list[float]


class MpiRun(msgspec.Struct):
    """The last line of rank 0."""

    ranks: list[MpiRank]


def check(lab: Lab) -> Iterator[Finding]:
    """Looks at the newest launcher that has succeeded, and at the ranks in its log."""
    # 1. the job
    launchers = [pod for pod in read_pods(lab) if pod.labels.get("training.kubeflow.org/job-role") == "launcher"]
    ended = [pod for pod in launchers if pod.succeeded]
    yield Finding(bool(ended), "the launcher of an MPIJob has succeeded", advise(launchers))
    if not ended:
        return
    launcher = max(ended, key=lambda pod: pod.finished_at)
    # 2. its report
    report = _report_of(lab.pod_log(launcher.name))
    yield Finding(
        report is not None,
        "rank 0 has printed the report of all ranks",
        f"`kubectl logs {launcher.name}` does not end with the line of report.py: call report(world, parameters) last",
    )
    if report is None:
        return
    # 3. the ranks
    hosts = {rank.host for rank in report.ranks}
    yield Finding(
        len(hosts) > 1,
        f"{len(report.ranks)} ranks have run on two workers or more",
        f"{len(report.ranks)} ranks ran on {', '.join(sorted(hosts))}: mpirun fills the slots of one worker first, in "
        "the order of the hostfile; start as many ranks as there are slots on both, or use --map-by node",
    )
    yield from compare(report.ranks)


def compare(ranks: Sequence[MpiRank]) -> Iterator[Finding]:
    """Yields whether the ranks have trained one model, and that of one process."""
    found = [np.array(rank.parameters) for rank in ranks]
    same = all(each.shape == (4,) and np.allclose(each, found[0], rtol=TOLERANCE, atol=0) for each in found)
    yield Finding(
        same,
        "all ranks have equal parameters at the end",
        "each rank has trained a model of its own: begin with the parameters of rank 0 on all ranks (Bcast), and let "
        "each step use the mean of all gradients (Allreduce)",
    )
    expected = one_process()
    yield Finding(
        same and np.allclose(found[0], expected, rtol=TOLERANCE, atol=0),
        "the parameters equal those of one process with all samples",
        f"the parameters are {np.round(found[0], 4)}, and one process gets {np.round(expected, 4)}. Allreduce gives "
        "the sum: divide it by the number of ranks. The model begins with the parameters of rank 0. Pods read train.py "
        "from the ConfigMap code: after a change of the file, delete it and create it again, as in step 4",
    )


def one_process() -> np.ndarray:
    """Returns the parameters after the training with all samples in one process."""
    numbers = np.random.default_rng(1234)
    inputs = numbers.normal(size=(64, 4))
    targets = inputs @ np.array([1.0, -2.0, 3.0, 0.5]) + 0.1 * numbers.normal(size=64)
    parameters = np.random.default_rng(0).normal(size=4)
    for _ in range(STEPS):
        parameters -= RATE * 2 * inputs.T @ (inputs @ parameters - targets) / len(targets)
    return parameters


def advise(launchers: Sequence[PodRecord]) -> str:
    if not launchers:
        return "no launcher: create the ConfigMap code of train.py and report.py, then kubectl apply -f mpijob.yaml"
    pod = launchers[-1]
    return f"{pod.name} is {pod.phase}: `kubectl logs {pod.name}` shows how far mpirun came"


def _report_of(lines: Sequence[str]) -> MpiRun | None:
    for line in reversed(lines):
        try:
            return msgspec.json.decode(line, type=MpiRun)
        except msgspec.DecodeError:
            continue
    return None
