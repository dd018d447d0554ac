"""Tables of the options of sbatch: short names, flags, and all names that it knows."""

from __future__ import annotations

from types import MappingProxyType

SHORT = MappingProxyType(
    {
        "-A": "--account", "-a": "--array", "-b": "--begin", "-C": "--constraint", "-c": "--cpus-per-task",
        "-D": "--chdir", "-d": "--dependency", "-e": "--error", "-F": "--nodefile", "-G": "--gpus", "-H": "--hold",
        "-i": "--input", "-J": "--job-name", "-k": "--no-kill", "-L": "--licenses", "-M": "--clusters",
        "-m": "--distribution", "-N": "--nodes", "-n": "--ntasks", "-O": "--overcommit", "-o": "--output",
        "-p": "--partition", "-q": "--qos", "-Q": "--quiet", "-S": "--core-spec", "-s": "--oversubscribe",
        "-t": "--time", "-v": "--verbose", "-W": "--wait", "-w": "--nodelist", "-x": "--exclude", "-B":
        "--extra-node-info",
    }
)  # fmt: skip
"""Short option of sbatch → long option."""
FLAGS = frozenset(
    {
        "--contiguous",
        "--exclusive",
        "--get-user-env",
        "--hold",
        "--ignore-pbs",
        "--kill-on-invalid-dep",
        "--nice",
        "--no-kill",
        "--no-requeue",
        "--oversubscribe",
        "--overcommit",
        "--parsable",
        "--quiet",
        "--reboot",
        "--requeue",
        "--spread-job",
        "--test-only",
        "--use-min-nodes",
        "--verbose",
        "--propagate",
        "--wait",
        "--x11",
        "--container",
        "--spread",
    }
)
"""Options that need no value."""
_OTHER_OPTIONS = """
    acctg-freq batch bb bbf cluster-constraint clusters comment consolidate-segments container-id core-spec
    cores-per-socket cpu-freq cpus-per-gpu deadline delay-boot exclude export export-file external-launcher extra
    gid gpu-bind gpu-freq gpus gpus-per-node gpus-per-socket gpus-per-task gres gres-flags help hint input
    jobid job-name kill-on-invalid-dep mail-type mail-user mcs-label mem mem-bind mem-per-cpu mem-per-gpu
    mem-update mincpus network nice no-bell nodefile nodelist nodes ntasks ntasks-per-board ntasks-per-core
    ntasks-per-gpu ntasks-per-node ntasks-per-socket ntasks-per-tres oom-kill-step open-mode power prefer priority
    profile propagate reservation resv-ports segment signal sockets-per-node stepmgr switches thread-spec
    threads-per-core time time-min tmp tres-bind tres-per-task uid usage use-min-nodes version
    wait-all-nodes wckey wrap x11
"""
OPTIONS = frozenset(SHORT.values()) | FLAGS | {f"--{name}" for name in _OTHER_OPTIONS.split()}
"""Every option of sbatch."""
_PLUGIN = ("--container-", "--no-container-", "--environment")
"""Beginnings of options of plugins for containers: Pyxis, and the Container Engine with its environment files."""


_ALIASES = MappingProxyType(
    {
        "--tasks-per-node": "--ntasks-per-node",
        "--workdir": "--chdir",
        "--cluster": "--clusters",
        "--share": "--oversubscribe",
    }
)
"""Earlier and other names, which sbatch takes as well."""


def is_known(name: str) -> bool:
    """Tells whether sbatch takes an option: its name, or a beginning that only one option has."""
    return name.startswith(_PLUGIN) or full_name(name) != ""


def full_name(name: str) -> str:
    """The option that a name or its unambiguous beginning means; "" if there is none."""
    name = _ALIASES.get(name, name)
    if name in OPTIONS:
        return name
    meant = [each for each in OPTIONS if each.startswith(name)]
    return meant[0] if len(meant) == 1 else ""
