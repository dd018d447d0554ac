"""JAXJob's contract: the variables from which a script reads the arguments of jax.distributed.initialize.

Source: kubeflow/training-operator v1.9, pkg/controller.v1/jax/envvar.go.
"""

from __future__ import annotations

from windlass.launch.replica_names import replica_name


def environment(job: str, *, pods: int, port: int, index: int) -> dict[str, str]:
    """The variables of one pod. Worker 0 is the coordinator."""
    return {
        "PYTHONUNBUFFERED": "1",
        "COORDINATOR_PORT": str(port),
        "COORDINATOR_ADDRESS": replica_name(job, "worker", 0),
        "NUM_PROCESSES": str(pods),
        "PROCESS_ID": str(index),
    }
