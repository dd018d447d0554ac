"""Offered load: submitted work over the cluster's capacity in the same time; and traces rescaled to a given load."""

from __future__ import annotations

from dataclasses import replace

from windlass.backends.simulator.errors import SimulationError
from windlass.backends.simulator.gangs import milli_units, requested_units, unit_of
from windlass.backends.simulator.traces.job import Trace
from windlass.jobs.cluster.cluster_file import Cluster


def at_load(trace: Trace, cluster: Cluster, load: float) -> Trace:
    """Returns the same jobs in the same order, with every gap between arrivals multiplied by one factor.

    Raises SimulationError if the trace has no gaps or no work.
    """
    now = offered_load(trace, cluster)
    if not now:
        text = f"{trace.place} cannot be brought to a load of {load:g}: its jobs arrive at one time, or request nothing"
        raise SimulationError(text)
    first = trace.jobs[0].submit
    jobs = tuple(replace(job, submit=first + round((job.submit - first) * now / load)) for job in trace.jobs)
    return replace(trace, jobs=jobs)


def offered_load(trace: Trace, cluster: Cluster) -> float:
    """Computes the offered load: of GPUs if any job asks for one, else of cores; 0 if all jobs arrive together."""
    unit = unit_of(trace)
    capacity = sum(milli_units(node.capacity, unit) for node in cluster.nodes)
    span = trace.jobs[-1].submit - trace.jobs[0].submit
    work = sum(requested_units(job, unit) * job.duration for job in trace.jobs)
    return work / (span * capacity) if span and capacity else 0.0
