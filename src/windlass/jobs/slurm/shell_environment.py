"""Variables and programs of Slurm for a batch script that runs unchanged as the command of a rank or of a replica.

Bash code stands before the script: it sets SLURM_* from the variables of `launch.torchrun`, and defines srun, scontrol
and module. Each task runs the script; its srun runs a step as this task, without a call to any other node.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from types import MappingProxyType

from windlass import wire
from windlass.jobs.slurm.srun_step import LONG_WITH_VALUE, SHORT_WITH_VALUE

OF_RANK = MappingProxyType(
    {
        "SLURM_NODEID": "${PET_NODE_RANK:-0}",
        "SLURM_NNODES": "${PET_NNODES:-1}",
        "SLURM_JOB_NUM_NODES": "$SLURM_NNODES",
        "SLURM_PROCID": "${RANK:-$SLURM_NODEID}",
        "SLURM_LOCALID": "${LOCAL_RANK:-0}",
        "SLURM_NTASKS": "${WORLD_SIZE:-$SLURM_NNODES}",
        "SLURM_NPROCS": "$SLURM_NTASKS",
        "SLURM_NTASKS_PER_NODE": "${LOCAL_WORLD_SIZE:-1}",
        "SLURM_TASKS_PER_NODE": "$SLURM_NTASKS_PER_NODE(x$SLURM_NNODES)",
        "SLURM_STEP_NUM_TASKS": "$SLURM_NTASKS",
        "SLURM_STEP_NUM_NODES": "$SLURM_NNODES",
        "SLURM_GTIDS": "$SLURM_PROCID",
        "SLURM_STEP_ID": "0",
        "SLURM_STEPID": "0",
        "SLURM_TASK_PID": "$BASHPID",
        "SLURMD_NODENAME": f"${{{wire.NODE}:-$(uname -n)}}",
        "SLURM_RESTART_COUNT": f"$(( ${{{wire.GENERATION}:-1}} - 1 ))",
        "SLURM_LAUNCH_NODE_IPADDR": "${MASTER_ADDR:-127.0.0.1}",
        "SLURM_JOB_GPUS": "${CUDA_VISIBLE_DEVICES:-}",
        "SLURM_STEP_GPUS": "${CUDA_VISIBLE_DEVICES:-}",
        "SLURM_SUBMIT_DIR": "$PWD",
        "SLURM_SUBMIT_HOST": "${SLURMD_NODENAME}",
        "SLURM_JOB_USER": "$(id -un 2>/dev/null || id -u)",
        "SLURM_JOB_UID": "$(id -u)",
        "SLURM_CLUSTER_NAME": "windlass",
        "SLURM_TMPDIR": "${TMPDIR:-/tmp}",
        "SLURM_ARRAY_TASK_ID": f"${{{wire.INDEX}:-}}",
        "SLURM_JOB_NODELIST": "$(windlass_slurm_hosts | paste -s -d,)",
        "SLURM_NODELIST": "$SLURM_JOB_NODELIST",
        "SLURM_STEP_NODELIST": "$SLURM_JOB_NODELIST",
    }
)
"""Variable → bash expression, in the order of assignment."""
OF_JOB_ID = ("SLURM_JOB_ID", "SLURM_JOBID", "SLURM_ARRAY_JOB_ID")
OF_OPTIONS = (
    *("SLURM_JOB_NAME", "SLURM_JOB_PARTITION", "SLURM_JOB_ACCOUNT", "SLURM_JOB_QOS", "SLURM_CPUS_PER_TASK"),
    *("SLURM_CPUS_ON_NODE", "SLURM_JOB_CPUS_PER_NODE", "SLURM_GPUS", "SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE"),
    *("SLURM_GPUS_PER_TASK", "SLURM_MEM_PER_NODE", "SLURM_MEM_PER_CPU", "SLURM_ARRAY_TASK_COUNT"),
    *("SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_MAX", "SLURM_ARRAY_TASK_STEP", "SLURM_HET_SIZE", "SLURM_HET_GROUP"),
)
"""Variables whose values the options of the script state."""
KNOWN_VARIABLES = frozenset({*OF_RANK, *OF_JOB_ID, *OF_OPTIONS})
"""SLURM_* variables that a script has."""

_PROGRAMS = r"""
windlass_slurm_hosts() {  # the first node by its address, the others by number
  echo "${MASTER_ADDR:-127.0.0.1}"
  local node
  for (( node = 1; node < SLURM_NNODES; node++ )); do echo "node-$node"; done
}
scontrol() {
  case "$1 $2" in
    "show hostname"*) if [ -n "${3:-}" ]; then tr , '\n' <<< "$3"; else windlass_slurm_hosts; fi ;;
    *) echo "windlass: scontrol $1 ${2:-} is not available in a job" >&2; return 1 ;;
  esac
}
srun() {  # runs a step as this task; a step of fewer tasks, of other nodes or of another component is skipped
  local tasks='' hosts='' group=0 component=0 node=0 host selected='' command=()
  while [ $# -gt 0 ]; do
    case "$1" in
      --ntasks=*|--nodelist=*|--het-group=*)
        case "$1" in --ntasks=*) tasks=${1#*=} ;; --nodelist=*) hosts=${1#*=} ;; *) group=${1#*=} ;; esac ;;
      -n|--ntasks) tasks=$2; shift ;;
      -n[0-9]*) tasks=${1#-n} ;;
      -w|--nodelist) hosts=$2; shift ;;
      -w*) hosts=${1#-w} ;;
      --het-group) group=$2; shift ;;
      --*=*) ;;
      @LONG@) shift ;;
      -[@SHORT@]) shift ;;
      -*) ;;
      *) break ;;
    esac
    shift
  done
  for host in "$@"; do
    if [ "$host" = : ]; then component=$(( component + 1 )); group=$component; continue; fi
    if [ "$group" = "${SLURM_HET_GROUP:-0}" ]; then command+=("$host"); fi
  done
  if [ "$component" -gt 0 ]; then while [[ "${command[0]:-}" == -* ]]; do command=("${command[@]:1}"); done; fi
  if [ ${#command[@]} -eq 0 ]; then return 0; fi
  if [ -n "$hosts" ]; then
    if [ "${command[0]}" = hostname ]; then echo "${hosts%%,*}"; return 0; fi
    for host in $(windlass_slurm_hosts); do
      case ",$hosts," in *",$host,"*) if [ "$node" = "$SLURM_NODEID" ]; then selected=1; fi ;; esac
      node=$(( node + 1 ))
    done
    if [ -z "$selected" ]; then return 0; fi
  elif [ -n "$tasks" ] && [ "$SLURM_PROCID" -ge "$tasks" ]; then
    return 0
  fi
  if [ -z "$tasks" ] || [ -n "$hosts" ]; then tasks=$SLURM_NTASKS; fi
  SLURM_NTASKS=$tasks SLURM_NPROCS=$tasks "${command[@]}"
}
if ! type module >/dev/null 2>&1; then
  module() { echo "windlass: no environment modules here: module $*" >&2; }
  export -f module
fi
"""
_JOB_ID = f"""
windlass_slurm_id=${{{wire.JOB_ID}:-job-0}}
windlass_slurm_number=${{windlass_slurm_id##*-}}; windlass_slurm_number=${{windlass_slurm_number%%_*}}
case $windlass_slurm_number in
  ''|*[!0-9]*) windlass_slurm_number=$(cksum <<< "$windlass_slurm_id" | cut -d' ' -f1) ;;
esac
export SLURM_ARRAY_JOB_ID=$windlass_slurm_number
if [ -n "${{{wire.INDEX}:-}}" ]; then
  export SLURM_JOB_ID=$(( windlass_slurm_number * 1000000 + {wire.INDEX} ))
else
  export SLURM_JOB_ID=$windlass_slurm_number; unset SLURM_ARRAY_JOB_ID SLURM_ARRAY_TASK_ID
fi
export SLURM_JOBID=$SLURM_JOB_ID
"""
_TITLE = "# Variables and programs of Slurm, from those of Windlass; the script itself follows unchanged.\n"
_END = '"$windlass_slurm_script"\n'
FIRST_NODE_ONLY = 'if [ "$SLURM_NODEID" != 0 ]; then exit 0; fi\n'
"""For a script that starts nothing on other nodes."""


def bash_prelude(of_options: Mapping[str, str], *, first_node_only: bool = False, interpreter: str = "") -> str:
    """Bash code that runs the script in its first argument: variables and programs of Slurm, then the script itself.

    `of_options`: values of the variables that the options of the script state. `interpreter`: the program that runs the
    script by `-c`; "": bash itself.
    """
    long = "|".join(f"--{name}" for name in LONG_WITH_VALUE)
    programs = _PROGRAMS.replace("@LONG@", long).replace("@SHORT@", SHORT_WITH_VALUE)
    functions, _, module = programs.partition("if ! type module")
    exports = "".join(f'export {name}="{expression}"\n' for name, expression in OF_RANK.items())
    written = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in of_options.items())
    guard = FIRST_NODE_ONLY if first_node_only else ""
    shared = "export -f srun scontrol windlass_slurm_hosts\n"
    runner = f"exec {shlex.quote(interpreter)} -c" if interpreter else "eval"
    run = f"windlass_slurm_script=$1; shift\n{runner} {_END}"
    return (
        f"{_TITLE}{functions.lstrip()}{exports}{_JOB_ID.lstrip()}{written}{shared}if ! type module{module}{guard}{run}"
    )


def script_of(command: str) -> str:
    """The name or path of the script that a quoted command runs by `bash_prelude`; any other command unchanged."""
    prelude, end, rest = command.partition(f"{_END}' ")
    if not end or _TITLE not in prelude:
        return command
    words = shlex.shlex(rest, posix=True)
    words.whitespace_split, words.commenters = True, ""
    try:
        return words.get_token() or command
    except ValueError:
        return command
