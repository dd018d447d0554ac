"""Rules about batch scripts of Slurm."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches

from windlass.diagnose.lint.batch_script import LintedScript
from windlass.diagnose.lint.findings import Hit, RuleSeverity
from windlass.diagnose.lint.rendezvous_options import (
    INTERFACE_VARIABLES,
    LAUNCHER,
    LOOPBACK,
    has_address,
    has_any_address,
    has_every_value,
    is_static,
    torchrun_options,
)
from windlass.diagnose.lint.rule import Subject, rule
from windlass.jobs.errors import Place
from windlass.jobs.slurm.batch_script import SbatchOption
from windlass.jobs.slurm.sbatch_options import OPTIONS, is_known
from windlass.jobs.syntax.command_line import node_count_of, procs_of

_SBATCH = "https://slurm.schedmd.com/sbatch.html"
_SRUN = "https://slurm.schedmd.com/srun.html"
_TORCHRUN = "https://docs.pytorch.org/docs/stable/elastic/run.html"
_REPEATABLE = "--mail-type"
"""Option whose values add up."""
_TIME = re.compile(r"[0-9]+|[0-9]+:[0-9]+(:[0-9]+)?|[0-9]+-[0-9]+(:[0-9]+){0,2}|infinite|unlimited", re.IGNORECASE)
_IS_LOOKUP = re.compile(r"\bhostname\b|nvidia-smi|\s(--ntasks[= ]|-n ?)1(\s|$)")
"""A step of srun that asks for facts, or is one task: it needs no more than one CPU."""
_OWN_TASKS = re.compile(r"\s(?:--ntasks(?:-per-node)?[= ]|-n ?[0-9$])")
"""Option of srun that sets the number of tasks for this step."""
_TASK_VARIABLES = ("SLURM_NTASKS_PER_NODE", "SLURM_TASKS_PER_NODE")
_GPU_VARIABLES = (None, "SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE")
_MEMORY = ("--mem", "--mem-per-cpu", "--mem-per-gpu")
_STARTER = re.compile(r"\b(?:srun|pdsh|mpirun|mpiexec|ssh)\b")
"""A program that starts others on several nodes."""
_OTHER_LAUNCHER = re.compile(r"\b(?:torchrun|torch\.distributed|accelerate|deepspeed|horovodrun|colossalai|ray)\b")
_PYTHON = re.compile(r"\s*(?:[A-Z_]+=\S+\s+)*(?:\S*/)?(python3?)\s+(?:-u\s+)?\S+\.py\b")
_ONE_NODE = re.compile(r"\s(?:(?:--nodes[= ]|--ntasks[= ]|-N ?|-n ?)1(?:\s|$)|--nodelist|-w\s)")
"""Option of srun for a step on one node."""
_PART_OF_JOB = re.compile(r"\s(?:--(?:nodes|ntasks|nodelist|exclude|relative|het-group)\b|-[Nnwxr] ?\S)")
"""Option of srun that may start a step on a part of the job's nodes."""
_SEVERAL_NODES = re.compile(r"--nnodes[= ][\"']?(?:[2-9]|[1-9][0-9]|\$\{?SLURM_(?:JOB_)?(?:NNODES|NUM_NODES))")
_NODE_RANK = re.compile(r"--node[-_]rank[= ][\"']?(\$\{?SLURM_(?:NODEID|PROCID|LOCALID))?")
_LOCAL = re.compile(r"(?:MASTER_ADDR=|--(?:rdzv[-_]endpoint|master[-_]addr)[ =])[\"']?(localhost|127\.0\.0\.1)")


def _options(script: LintedScript) -> Iterator[SbatchOption]:
    yield from (each for each in script.options if not each.ignored)


def _nodes(script: LintedScript) -> int:
    return script.number("--nodes") or 1


@rule(RuleSeverity.ERROR, Subject.SCRIPT, fix="Move the line above the first command.", source=_SBATCH)
def sbatch_option_after_command(script: LintedScript) -> Iterator[Hit]:
    """The command sbatch stops reading options at the first command, so this one has no effect."""
    for option in script.options:
        if option.ignored:
            yield Hit(option.place, f"{option.name[:60]} stands after a command")


@rule(RuleSeverity.ERROR, Subject.SCRIPT, fix="Correct the name of the option.", source=_SBATCH)
def sbatch_option_unknown(script: LintedScript) -> Iterator[Hit]:
    """The command sbatch refuses a script with an option that it does not know."""
    for option in _options(script):
        if option.name.startswith("--") and not is_known(option.name):
            close = get_close_matches(option.name, sorted(OPTIONS), 1, 0.8)
            if close:  # another name may be an option of a plugin of the cluster
                yield Hit(option.place, f"sbatch has no option {option.name[:60]}; did you mean {close[0]}?")


@rule(RuleSeverity.WARNING, Subject.SCRIPT, fix="Write #SBATCH at the beginning of the line.", source=_SBATCH)
def sbatch_prefix_malformed(script: LintedScript) -> Iterator[Hit]:
    """Only a line that begins with #SBATCH is an option; any other spelling is a comment."""
    for number, line in enumerate(script.text.lines, 1):
        found = re.match(r"(?:\s*#\s+SBATCH|\s+#SBATCH|#(?!SBATCH)(?i:SBATCH))(?=\s+-)", line)
        if found:
            yield Hit(Place(number, 1, len(found[0])), f"{found[0].strip()!r} is a comment", "#SBATCH")


@rule(RuleSeverity.ERROR, Subject.SCRIPT, fix="Write the interpreter: #!/bin/bash.", source=_SBATCH)
def sbatch_shebang_missing(script: LintedScript) -> Iterator[Hit]:
    """The command sbatch refuses a script whose first line names no interpreter."""
    if not script.text.text.startswith("#!"):
        yield Hit(Place(1, 1), "the first line does not begin with #!")


@rule(RuleSeverity.ERROR, Subject.SCRIPT, fix="Save the file with line ends of Unix: dos2unix FILE.", source=_SBATCH)
def sbatch_dos_line_ends(script: LintedScript) -> Iterator[Hit]:
    """The command sbatch refuses a script with line ends of DOS."""
    if "\r\n" in script.text.text:
        yield Hit(Place(1, 1), "lines end with a carriage return")


@rule(
    RuleSeverity.ERROR,
    Subject.SCRIPT,
    fix="Write %j, %x, %u or %N, or the path itself.",
    source=f"{_SBATCH}#SECTION_FILENAME-PATTERN",
)
def sbatch_variable_in_option(script: LintedScript) -> Iterator[Hit]:
    """No shell reads the options: a variable stays as it is written, as part of a file's name."""
    for option in _options(script):
        if re.search(r"\$\{?[A-Za-z_]", option.value):
            yield Hit(option.place, f"{option.name}: {option.value[:60]!r} has a variable")


@rule(RuleSeverity.ERROR, Subject.SCRIPT, fix="Write minutes, hours:minutes:seconds or days-hours.", source=_SBATCH)
def sbatch_time_malformed(script: LintedScript) -> Iterator[Hit]:
    """The command sbatch refuses a time limit of another form."""
    for option in _options(script):
        is_time = option.name in ("--time", "--time-min") and "$" not in option.value
        if is_time and option.value and not _TIME.fullmatch(option.value):
            yield Hit(option.place, f"{option.value[:40]!r} is no time limit")


@rule(RuleSeverity.ERROR, Subject.SCRIPT, fix="Keep one of them.", source=_SBATCH)
def sbatch_memory_twice(script: LintedScript) -> Iterator[Hit]:
    """--mem, --mem-per-cpu and --mem-per-gpu exclude each other."""
    found = [option for name in _MEMORY if (option := script.option(name))]
    if len(found) > 1:
        yield Hit(found[-1].place, f"{found[0].name} and {found[-1].name} in one script")


@rule(
    RuleSeverity.ERROR,
    Subject.SCRIPT,
    fix="Write gpu, gpu:COUNT or gpu:TYPE:COUNT.",
    source="https://slurm.schedmd.com/gres.html",
)
def sbatch_gres_malformed(script: LintedScript) -> Iterator[Hit]:
    """Slurm's resource is called gpu, and colons stand before its type and count; another name is refused."""
    for option in _options(script):
        wrong = re.search(r"(?i)(?:^|,)(gpus?:?=[0-9]+|gpus(?::|$))", option.value)
        if option.name == "--gres" and wrong:
            yield Hit(option.place, f"--gres={option.value[:40]} is no amount of GPUs")


@rule(
    RuleSeverity.ERROR,
    Subject.SCRIPT,
    fix="Write --ntasks-per-node=1; torchrun starts the processes of a node.",
    source=_TORCHRUN,
)
def sbatch_torchrun_per_gpu(script: LintedScript) -> Iterator[Hit]:
    """Each task starts a torchrun with all processes of the node, so there are too many ranks for the GPUs."""
    option, tasks = _tasks_per_node(script)
    for _, line in _launches(script) if option and tasks > 1 else ():
        processes = _processes(script, line, tasks) or 1
        if re.search(r"\bsrun\b", line) and processes > 1 and not _OWN_TASKS.search(line) and option:
            yield Hit(option.place, f"{tasks} tasks on each node start {processes} processes each")
            return


def _tasks_per_node(script: LintedScript) -> tuple[SbatchOption | None, int]:
    """The option that sets the tasks of a node, and their number; 1 where it is not known."""
    option = script.option("--ntasks-per-node")
    if option:
        return option, script.number("--ntasks-per-node") or 1
    nodes = script.number("--nodes")
    return script.option("--ntasks"), (script.number("--ntasks") or 1) // nodes if nodes else 1


def _processes(script: LintedScript, line: str, tasks: int) -> int | None:
    """Processes that a launcher starts on each node; None if they are not known."""
    named = re.search(r"--nproc[-_]per[-_]node[= ][\"']?(?:\$\{?(\w+)\}?|gpu|auto)(?=[\s\"']|$)", line)
    if named:
        return tasks if named[1] in _TASK_VARIABLES else _gpus_per_node(script) if named[1] in _GPU_VARIABLES else None
    return procs_of(line.split())


def _launches(script: LintedScript) -> Iterator[tuple[Place, str]]:
    """The commands that start torchrun, under any of its names."""
    for program in ("torchrun", "torch.distributed.run", "torch.distributed.launch"):
        yield from script.calls(program)


@rule(RuleSeverity.ERROR, Subject.SCRIPT, fix="Write srun before the command.", source=_SRUN)
def sbatch_torchrun_without_srun(script: LintedScript) -> Iterator[Hit]:
    """A batch script runs on its first node only; srun starts a command on all of them."""
    nodes, tasks = _nodes(script), _free_tasks(script)
    whole = f"{nodes} nodes" if nodes > 1 else f"the nodes of {tasks} tasks"
    for place, line in _launches(script) if max(nodes, tasks) > 1 and not _starts_tasks(script) else ():
        found = LAUNCHER.search(line)
        yield Hit(place, f"{found[0].strip() if found else 'torchrun'} runs on one of {whole}")


def _free_tasks(script: LintedScript) -> int:
    """Number of tasks that Slurm may spread over nodes; 1 where the options set a number of nodes."""
    is_set = script.option("--nodes") or script.option("--ntasks-per-node")
    return 1 if is_set else script.number("--ntasks") or 1


def _starts_tasks(script: LintedScript) -> bool:
    """Tells whether a command of the script starts others on all nodes."""
    return any(_STARTER.search(line) for _, line in script.commands)


@rule(
    RuleSeverity.WARNING,
    Subject.SCRIPT,
    fix="Write srun before python, or ask for one task.",
    source="https://lightning.ai/docs/pytorch/stable/clouds/cluster_advanced.html",
)
def sbatch_python_without_srun(script: LintedScript) -> Iterator[Hit]:
    """The script is one process: without srun the other tasks never start, and the ranks wait for them."""
    tasks = script.number("--ntasks") or _nodes(script) * (script.number("--ntasks-per-node") or 1)
    started = _starts_tasks(script) or any(_OTHER_LAUNCHER.search(line) for _, line in script.commands)
    for place, line in script.commands if tasks > 1 and _has_gpus(script) and not started else ():
        if found := _PYTHON.match(line):
            yield Hit(place, f"{found[1]} starts one process of {tasks} tasks")


def _has_gpus(script: LintedScript) -> bool:
    amounts = (script.option(name) for name in ("--gres", "--gpus", "--gpus-per-node", "--gpus-per-task"))
    return any(each is not None and (each.name != "--gres" or "gpu" in each.value) for each in amounts)


@rule(RuleSeverity.WARNING, Subject.SCRIPT, fix="Write hours:minutes:seconds.", source=_SBATCH)
def sbatch_time_in_minutes(script: LintedScript) -> Iterator[Hit]:
    """Two numbers are minutes and seconds: Slurm ends a job of --time=12:00 after twelve minutes."""
    option = script.option("--time")
    found = re.fullmatch(r"([0-9]{1,2}):([0-9]{2})", option.value) if option else None
    if option and found and _nodes(script) > 1 and _has_gpus(script):
        length = f"{int(found[1])} min {int(found[2])} s"
        fix = f"Write --time={option.value}:00 for hours, or --time=0:{option.value} for minutes."
        yield Hit(option.place, f"--time={option.value} is {length}, on {_nodes(script)} nodes", fix=fix)


@rule(RuleSeverity.WARNING, Subject.SCRIPT, fix="Start one process for each GPU.", source=_TORCHRUN)
def sbatch_processes_differ(script: LintedScript) -> Iterator[Hit]:
    """Ranks beyond the GPUs of the node share or lack one; GPUs beyond the ranks stay idle."""
    gpus = _gpus_per_node(script)
    for place, line in script.calls("torchrun"):
        processes = procs_of(line.split())
        if gpus and processes and processes != gpus:
            yield Hit(place, f"--nproc-per-node {processes} with {gpus} GPUs on each node")


def _gpus_per_node(script: LintedScript) -> int | None:
    for name in ("--gpus-per-node", "--gres"):
        option = script.option(name)
        found = re.fullmatch(r"(?:gpu:)?(?:[A-Za-z][\w.-]*:)?([0-9]+)", option.value) if option else None
        if found:
            return int(found[1])
    return None


@rule(RuleSeverity.WARNING, Subject.SCRIPT, fix="Start the script with torchrun.", source=_TORCHRUN)
def sbatch_launch_obsolete(script: LintedScript) -> Iterator[Hit]:
    """torch.distributed.launch is deprecated: torchrun replaced it and passes LOCAL_RANK as a variable."""
    for place, _ in script.calls("torch.distributed.launch"):
        yield Hit(place, "torch.distributed.launch was replaced by torchrun")


@rule(
    RuleSeverity.ERROR,
    Subject.SCRIPT,
    fix='Write the first node: $(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1).',
    source=_TORCHRUN,
)
def sbatch_address_of_itself(script: LintedScript) -> Iterator[Hit]:
    """Each node then waits for the others at its own address, until the rendezvous times out."""
    for place, line in script.commands if _nodes(script) > 1 else ():
        if found := _LOCAL.search(line):
            yield Hit(place, f"{found[1]} as the address of {_nodes(script)} nodes")


def _launched_by_srun(script: LintedScript) -> Iterator[tuple[Place, str, str]]:
    """The commands that start torchrun on all of several nodes: place, command, and the options of torchrun."""
    for place, line in script.commands if _nodes(script) > 1 else ():
        launcher = LAUNCHER.search(line)
        if launcher and re.search(r"\bsrun\b", line[: launcher.start()]) and not _ONE_NODE.search(line):
            yield place, line, torchrun_options(line) or ""


@rule(
    RuleSeverity.ERROR,
    Subject.SCRIPT,
    fix='Write --nnodes $SLURM_NNODES --rdzv-backend c10d --rdzv-endpoint "$MASTER_ADDR:29500", the first node.',
    source=_TORCHRUN,
)
def sbatch_torchrun_standalone(script: LintedScript) -> Iterator[Hit]:
    """--standalone is a rendezvous of one node: each node trains alone, or waits for the others at itself."""
    for place, _, options in _launched_by_srun(script):
        if re.search(r"(?:^|\s)--standalone(?:\s|$)", options):
            yield Hit(_place_of("--standalone", place, script), f"torchrun --standalone on {_nodes(script)} nodes")


def _place_of(word: str, command: Place, script: LintedScript) -> Place:
    """The first place of a word in a command of one or more lines."""
    for number, line in enumerate(script.text.lines[command.line - 1 :], command.line):
        if word in line:
            return Place(number, line.index(word) + 1, len(word))
    return command


@rule(
    RuleSeverity.ERROR,
    Subject.SCRIPT,
    fix='Write --rdzv-backend c10d --rdzv-endpoint "$MASTER_ADDR:29500" with the first node as MASTER_ADDR.',
    source=_TORCHRUN,
)
def sbatch_rendezvous_missing(script: LintedScript) -> Iterator[Hit]:
    """Without an address torchrun takes its own node; it does not read MASTER_ADDR. Each node waits at itself."""
    for place, _, options in _meeting(script):
        if not has_address(options):
            yield Hit(place, f"torchrun has no --rdzv-endpoint on {_nodes(script)} nodes")


@rule(RuleSeverity.ERROR, Subject.SCRIPT, fix="Write --nnodes $SLURM_NNODES.", source=_TORCHRUN)
def sbatch_nodes_differ(script: LintedScript) -> Iterator[Hit]:
    """The rendezvous waits for exactly so many nodes: with fewer it times out, with more some are left out."""
    for place, line, options in _launched_by_srun(script):
        expected, started = node_count_of(options.split()), _nodes_of_step(script, line)
        if expected and started and expected != started:
            yield Hit(place, f"torchrun --nnodes {expected} on {started} nodes")


def _nodes_of_step(script: LintedScript, line: str) -> int | None:
    """Number of nodes on which srun starts a command; None where its options leave it open."""
    step = LAUNCHER.split(line, maxsplit=1)[0]
    written = re.search(r"\s(?:--nodes[= ]|-N ?)([0-9]+)(?=\s)", step)
    if written:
        return int(written[1][:9])
    return None if _PART_OF_JOB.search(step) else script.number("--nodes")


@rule(
    RuleSeverity.ERROR,
    Subject.SCRIPT,
    fix="Write --rdzv-backend c10d, which numbers the nodes.",
    source=_TORCHRUN,
)
def sbatch_node_rank_equal(script: LintedScript) -> Iterator[Hit]:
    """Without a backend torchrun needs --node-rank; the script's own variables, and no value, are 0 on each node."""
    for place, line, options in _meeting(script):
        rank = _NODE_RANK.search(options)
        is_own = rank is not None and (rank[1] is None or "'" in line)
        if is_static(options) and has_any_address(options) and not is_own:
            value = f"--node-rank {rank[1].replace('{', '')} is 0" if rank and rank[1] else "no --node-rank: it is 0"
            yield Hit(place, f"{value} on each of {_nodes(script)} nodes")


@rule(RuleSeverity.WARNING, Subject.SCRIPT, fix="Write --nnodes $SLURM_NNODES.", source=_TORCHRUN)
def sbatch_nodes_missing(script: LintedScript) -> Iterator[Hit]:
    """Without --nnodes the launcher starts ranks for one node: each node trains alone, and waits for no other."""
    for place, _, options in _launched_by_srun(script):
        has_nodes = re.search(r"--(?:nnodes|standalone)\b", options) or not _is_complete(script, options)
        if not has_nodes and has_any_address(options):
            yield Hit(place, f"no --nnodes on {_nodes(script)} nodes")


def _meeting(script: LintedScript) -> Iterator[tuple[Place, str, str]]:
    """As `_launched_by_srun`, with --nnodes for several nodes and without options that are written elsewhere."""
    for place, line, options in _launched_by_srun(script):
        if _is_complete(script, options) and _SEVERAL_NODES.search(options) and "--standalone" not in options:
            yield place, line, options


def _is_complete(script: LintedScript, options: str) -> bool:
    """Tells whether no variable stands for further options: PET_… of torchrun, or one that is no option's value."""
    return has_every_value(options) and "PET_" not in script.text.text


@rule(
    RuleSeverity.ERROR,
    Subject.SCRIPT,
    fix="Set it in the command that srun starts: srun bash -c 'export RANK=$SLURM_PROCID; …'.",
    source=_SRUN,
)
def sbatch_rank_of_script(script: LintedScript) -> Iterator[Hit]:
    """The script itself is task 0: every rank inherits 0 from it, and each waits for the others."""
    for place, line in script.commands:
        if re.match(r"\s*export\s+(\w*RANK|\w*RANK_ID)=[\"']?\$\{?SLURM_(PROCID|LOCALID)\b", line):
            yield Hit(place, f"{line.split()[1][:60]} is set before srun")


@rule(
    RuleSeverity.WARNING,
    Subject.SCRIPT,
    fix="Write srun --cpus-per-task=$SLURM_CPUS_PER_TASK, or export SRUN_CPUS_PER_TASK.",
    source=_SRUN,
)
def sbatch_cpus_not_passed(script: LintedScript) -> Iterator[Hit]:
    """Since Slurm 22.05 srun does not take --cpus-per-task from the job: each task has one CPU."""
    set_elsewhere = "SRUN_CPUS_PER_TASK" in script.text.text
    for place, line in script.calls("srun") if (script.number("--cpus-per-task") or 1) > 1 else ():
        if _IS_LOOKUP.search(line):
            continue
        if not set_elsewhere and not re.search(r"\s(--cpus-per-task|-c\s*[0-9$])", line.partition(" bash ")[0]):
            yield Hit(place, "srun without --cpus-per-task")
            return


@rule(RuleSeverity.WARNING, Subject.SCRIPT, fix="Write --signal=B:SIGNAL@SECONDS.", source=_SBATCH)
def sbatch_signal_not_to_script(script: LintedScript) -> Iterator[Hit]:
    """Without B: the signal goes to the steps of srun and not to the script, so its trap never runs."""
    option = script.option("--signal")
    traps = any(re.match(r"\s*trap\s", line) for _, line in script.commands)
    if option and traps and not re.match(r"(R?B|BR):", option.value):
        yield Hit(option.place, f"--signal={option.value[:40]} with a trap in the script")


@rule(RuleSeverity.INFO, Subject.SCRIPT, fix="Write --open-mode=append.", source=_SBATCH)
def sbatch_output_overwritten(script: LintedScript) -> Iterator[Hit]:
    """A requeued job writes the same output file anew: the log of the first attempt is lost."""
    option = script.option("--requeue")
    if option and not script.option("--open-mode"):
        yield Hit(option.place, "--requeue without --open-mode=append")


@rule(RuleSeverity.WARNING, Subject.SCRIPT, fix="Keep one of the two.", source=_SBATCH)
def sbatch_option_twice(script: LintedScript) -> Iterator[Hit]:
    """The last value wins, and the first has no effect."""
    seen: dict[str, str] = {}
    for option in (each for each in _options(script) if each.name != _REPEATABLE):
        if seen.get(option.name, option.value) != option.value and not _is_component(script):
            yield Hit(option.place, f"{option.name[:60]} is set twice")
        seen[option.name] = option.value


def _is_component(script: LintedScript) -> bool:
    """Tells whether the options are of several components of a heterogeneous job."""
    return any(re.match(r"#SBATCH\s+hetjob|#SBATCH\s+packjob", line) for line in script.text.lines)


@rule(
    RuleSeverity.ERROR,
    Subject.SCRIPT,
    fix="Write the interface between the nodes, or remove the variable.",
    source="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",
)
def sbatch_socket_interface_local(script: LintedScript) -> Iterator[Hit]:
    """The loopback interface does not reach other nodes: the ranks cannot connect."""
    for name in INTERFACE_VARIABLES if _nodes(script) > 1 else ():
        value = script.env[name]["value"] if name in script.env else None
        if value and value.text in LOOPBACK:
            yield value.hit_value(f"{name}={value.text} on {_nodes(script)} nodes")
