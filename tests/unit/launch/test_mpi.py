"""The files and variables of mpirun: hosts, and the remote shell."""

import pytest

from windlass.launch import mpi

HOSTS = [mpi.host_name(f"pi-worker-{index}", "pi", "team") for index in (0, 1)]


@pytest.mark.parametrize(
    ("implementation", "line"),
    [
        ("OpenMPI", "pi-worker-0.pi.team.svc slots=4"),
        ("Intel", "pi-worker-0.pi.team.svc:4"),
        ("MPICH", "pi-worker-0.pi.team.svc:4"),
    ],
)
def test_a_hostfile_has_a_line_for_each_host(implementation, line):
    lines = mpi.hostfile(HOSTS, 4, implementation).splitlines()
    assert lines[0] == line
    assert len(lines) == 2


def test_hosts_end_with_the_clusters_domain_where_there_is_one():
    assert mpi.host_name("pi-launcher", "pi", "team", "cluster.local") == "pi-launcher.pi.team.svc.cluster.local"


def test_the_discovery_script_prints_running_hosts_and_v1_their_slots():
    assert mpi.discover_hosts(["a", "b"]) == "#!/bin/sh\necho a\necho b\n"
    assert mpi.discover_hosts(["a"], slots=2) == "#!/bin/sh\necho a:2"
    assert mpi.discover_hosts([]) == "#!/bin/sh\n"


def test_v1_reaches_a_container_by_kubectl():
    assert mpi.kubexec("main").endswith('/opt/kube/kubectl exec ${POD_NAME} --container main -- /bin/sh -c "$*"')
    assert "--container" not in mpi.kubexec()


def test_a_launcher_that_computes_nothing_sees_no_gpus():
    idle = mpi.launcher_environment("OpenMPI", 2, computes=False)
    assert idle == {
        "K_MPI_JOB_ROLE": "launcher",
        "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
        "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
        "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
        "OMPI_MCA_orte_set_default_slots": "2",
        "NVIDIA_VISIBLE_DEVICES": "",
        "NVIDIA_DRIVER_CAPABILITIES": "",
    }
    assert "NVIDIA_VISIBLE_DEVICES" not in mpi.launcher_environment("OpenMPI", 2, computes=True)


def test_each_implementation_reads_its_own_variables():
    assert mpi.launcher_environment("Intel", 2, computes=True) == {
        "K_MPI_JOB_ROLE": "launcher",
        "I_MPI_HYDRA_HOST_FILE": "/etc/mpi/hostfile",
        "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS": "-o ConnectionAttempts=10",
        "I_MPI_PERHOST": "2",
    }
    assert mpi.launcher_environment("MPICH", 2, computes=True) == {
        "K_MPI_JOB_ROLE": "launcher",
        "HYDRA_HOST_FILE": "/etc/mpi/hostfile",
        "HYDRA_LAUNCH_EXTRA_ARGS": "-o ConnectionAttempts=10",
    }


def test_a_job_overrides_intels_bootstrap_of_v1():
    variables = mpi.launcher_of_v1(computes=True, own={"I_MPI_HYDRA_BOOTSTRAP"})
    assert variables == {
        "OMPI_MCA_plm_rsh_agent": "/etc/mpi/kubexec.sh",
        "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
        "I_MPI_HYDRA_BOOTSTRAP_EXEC": "/etc/mpi/kubexec.sh",
    }
