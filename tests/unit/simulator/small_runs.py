"""Small simulations that tests of reports share."""

from windlass.backends.simulator import Trace, TraceJob, cluster_of, measure, replay
from windlass.backends.simulator.report import Experiment, PolicyRun
from windlass.backends.simulator.report.experiment import TraceSource
from windlass.core.queues.orders.registry import POLICIES

HOUR = 3_600_000
CLUSTER = cluster_of(2, 4)


def trace(*jobs: TraceJob, name: str = "small.jsonl") -> Trace:
    return Trace(name, "jsonl", jobs)


def job(number: int, submit: float, hours: float, gpus: int, **more: object) -> TraceJob:
    """Returns a job; `submit` in hours since the first submission."""
    plain = {"user": "ada", "queue": "research", "walltime": int(hours * HOUR)}
    return TraceJob(f"j{number}", int(submit * HOUR), int(hours * HOUR), gpus=gpus, **{**plain, **more})


def outcome_of(*jobs: TraceJob, policy: str = "fifo"):
    return replay(trace(*jobs), CLUSTER, POLICIES[policy])


FOUR = (job(1, 0, 2, 3), job(2, 0.5, 1, 4), job(3, 1, 1, 4), job(4, 1.5, 1, 1, queue="teaching", user="bob"))
"""Jobs for two nodes of four GPUs: j3 waits for j2."""


def experiment(*policies: str, **more: object) -> Experiment:
    plain = {
        "command": "windlass simulate small.jsonl --cluster 2x4",
        "sources": (TraceSource("small.jsonl", "Windlass JSON lines", 4, "ab12"),),
        "cluster": "2 nodes with 4 GPUs each",
        "policies": {name: POLICIES[name] for name in policies},
        "seeds": (1,),
        "random": "",
    }
    return Experiment(**{**plain, **more})


def runs(*policies: str, jobs=FOUR, seeds=(1,)) -> list[PolicyRun]:
    return [
        PolicyRun(
            policy, seed, measure(outcome := outcome_of(*jobs, policy=policy)), outcome if seed == seeds[0] else None
        )
        for policy in policies
        for seed in seeds
    ]
