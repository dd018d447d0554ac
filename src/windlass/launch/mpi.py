"""MPI's contract: a hostfile, a script that lists the running hosts, and the remote shell of mpirun.

Two ways: the training operator's MPIJob v1 reaches workers by `kubectl exec`, the mpi-operator's v2beta1 by SSH through
one headless service. Sources: kubeflow/training-operator v1.9, pkg/controller.v1/mpi/{mpijob,mpijob_controller}.go;
kubeflow/mpi-operator v0.8, pkg/controller/mpi_job_controller.go.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

OPEN_MPI, INTEL, MPICH = "OpenMPI", "Intel", "MPICH"
IMPLEMENTATIONS = (OPEN_MPI, INTEL, MPICH)
CONFIG = "/etc/mpi"
"""Mount path of the config map."""
KUBECTL = "/opt/kube"
"""Folder of the kubectl of v1's launcher."""
HOSTFILE = f"{CONFIG}/hostfile"
KUBEXEC = f"{CONFIG}/kubexec.sh"

_NO_GPUS = {"NVIDIA_VISIBLE_DEVICES": "", "NVIDIA_DRIVER_CAPABILITIES": ""}
"""For a launcher that computes nothing: without these, an image made for GPUs makes all of them visible."""
_RETRY = "-o ConnectionAttempts=10"


def host_name(pod: str, job: str, namespace: str, domain: str = "") -> str:
    """A pod's name behind the job's service, for v2beta1; `domain`: the cluster's, such as "cluster.local"."""
    return f"{pod}.{job}.{namespace}.svc" + (f".{domain}" if domain else "")


def hostfile(hosts: Iterable[str], slots: int, implementation: str = OPEN_MPI) -> str:
    """The hostfile, one host a line, in the format of the implementation."""
    form = "{host} slots={slots}\n" if implementation == OPEN_MPI else "{host}:{slots}\n"
    return "".join(form.format(host=host, slots=slots) for host in hosts)


def discover_hosts(hosts: Iterable[str], slots: int | None = None) -> str:
    """The script `discover_hosts.sh` of Elastic Horovod, which prints the running hosts.

    v1 appends their slots, and ends without a newline.
    """
    suffix, end = ("", "\n") if slots is None else (f":{slots}", "")
    return "\n".join(["#!/bin/sh", *(f"echo {host}{suffix}" for host in hosts)]) + end


def kubexec(container: str = "") -> str:
    """v1's remote shell: `mpirun` calls it with a pod's name and a command. `container`: its name in the pod."""
    into = f" --container {container}" if container else ""
    return f'#!/bin/sh\nset -x\nPOD_NAME=$1\nshift\n{KUBECTL}/kubectl exec ${{POD_NAME}}{into} -- /bin/sh -c "$*"'


def launcher_of_v1(*, computes: bool, own: Container[str] = ()) -> dict[str, str]:
    """Variables of v1's launcher. `computes`: it has GPUs. `own`: names that the job sets; they override Intel's."""
    intel = {"I_MPI_HYDRA_BOOTSTRAP": "rsh", "I_MPI_HYDRA_BOOTSTRAP_EXEC": KUBEXEC}
    return {
        "OMPI_MCA_plm_rsh_agent": KUBEXEC,
        "OMPI_MCA_orte_default_hostfile": HOSTFILE,
        **({} if computes else _NO_GPUS),
        **{name: value for name, value in intel.items() if name not in own},
    }


def launcher_environment(implementation: str, slots: int, *, computes: bool) -> dict[str, str]:
    """Variables of v2beta1's launcher. `computes`: runLauncherAsWorker."""
    return {
        "K_MPI_JOB_ROLE": "launcher",
        **_IMPLEMENTATION[implementation],
        **({_SLOTS[implementation]: str(slots)} if implementation in _SLOTS else {}),
        **({} if computes else _NO_GPUS),
    }


def worker_environment() -> dict[str, str]:
    """Variables of v2beta1's workers; those of v1 have none."""
    return {"K_MPI_JOB_ROLE": "worker"}


_IMPLEMENTATION = {
    OPEN_MPI: {
        "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
        "OMPI_MCA_orte_default_hostfile": HOSTFILE,
        "OMPI_MCA_plm_rsh_args": _RETRY,
    },
    INTEL: {"I_MPI_HYDRA_HOST_FILE": HOSTFILE, "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS": _RETRY},
    MPICH: {"HYDRA_HOST_FILE": HOSTFILE, "HYDRA_LAUNCH_EXTRA_ARGS": _RETRY},
}
_SLOTS = {OPEN_MPI: "OMPI_MCA_orte_set_default_slots", INTEL: "I_MPI_PERHOST"}
