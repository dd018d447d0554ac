"""PaddleJob's contract: collective mode among workers, or parameter servers (the masters) and trainers.

Source: kubeflow/training-operator v1.9, pkg/controller.v1/paddlepaddle/envvar.go.
"""

from __future__ import annotations

from windlass.launch.replica_names import replica_name

POD_IP = "POD_IP_DUMMY"
"""Variable with the rendezvous pod's own address: status.podIP, to be set before the others."""


def environment(job: str, role: str, index: int, *, pods: int, port: int, has_master: bool) -> dict[str, str]:
    """The variables of one pod. `port`: the master's, or worker 0's if there is no master."""
    host_role = "master" if has_master else "worker"
    first = role == host_role and index == 0
    # The first pod binds the address, and a name may not resolve to it before the pod is ready.
    host = f"$({POD_IP})" if first else replica_name(job, host_role, 0)
    variables = {
        "PYTHONUNBUFFERED": "1",
        "PADDLE_JOB_ID": job,
        "PADDLE_NNODES": str(pods),
        "PADDLE_MASTER": f"{host}:{port}",
    }
    if has_master:
        variables["PADDLE_SERVER_NUM" if role == "master" else "PADDLE_TRAINER_NUM"] = "1"
    return variables
