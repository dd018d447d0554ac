"""The commands of a batch script: how they start ranks, and what of them differs where no Slurm is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from windlass.jobs.errors import Place
from windlass.jobs.imports.outcomes import Loss
from windlass.jobs.slurm.batch_script import BatchScript
from windlass.jobs.slurm.direct_command import DirectCommand, read_direct_command
from windlass.jobs.slurm.shell_environment import KNOWN_VARIABLES
from windlass.jobs.slurm.srun_step import SrunStep, read_steps
from windlass.jobs.syntax.command_line import procs_of

_LAUNCHER = re.compile(
    r"(?:^|[\s;&|(/\"'=])(?:torchrun|torch\.distributed\.(?:run|launch)|accelerate\s+launch|deepspeed)(?=[\s\"'\\]|$)"
)
_SHELLS = ("bash", "sh")
_VARIABLE = re.compile(r"\$\{?[#!]?(SLURM_\w+|SLURMD?_\w+)")
_MPI = re.compile(r"(?:^|[\s;&|(])(mpirun|mpiexec(?:\.hydra)?|ibrun|aprun|jsrun|pdsh|ssh|clush|parallel-ssh)(?=\s)")
_SLURM_PROGRAM = re.compile(r"(?:^|[;&|(]|\$\()\s*(sbatch|scancel|squeue|sacct|sinfo|sstat|sbcast|scontrol)(?=\s|$)")
_MODULE = re.compile(r"(?:^|[;&|])\s*(module|ml|spack\s+load)(?=\s)")
_SETUP = re.compile(
    r"(?:export|module|ml|source|\.|conda|micromamba|mamba|cd|echo|printf|set|unset|ulimit|eval|alias|declare|local|"
    r"readonly|shopt|umask|date|hostname|env|printenv|nvidia-smi|which|pwd|ls|free|df|lscpu|wait|trap|exit|true|type|"
    r"sleep|mkdir|spack|if|then|else|elif|fi|for|while|do|done|case|esac|function|return|shift|read|test|\[+|\(+|\)|"
    r"\{|\}|:|nodes=.*|\w+\+?=.*|\w+\s*\(\))(?=[\s;)]|$)"
)
_KNOWN_COUNT = re.compile(r"[0-9]+|\$\{?SLURM_(?:NTASKS|NPROCS|NTASKS_PER_NODE|NNODES|JOB_NUM_NODES)\}?")
_STEP_REASONS = {
    "multi-prog": "each rank runs the same command; write roles",
    "container-image": "write image",
    "container-mounts": "write volumes into pod",
    "output": "windlass logs shows the output of each rank",
    "o": "windlass logs shows the output of each rank",
    "error": "windlass logs shows the output of each rank",
    "e": "windlass logs shows the output of each rank",
    "gpus-per-task": "each rank sees all GPUs of its node, and takes LOCAL_RANK",
    "pty": "ranks have no terminal; windlass exec opens a shell",
}


@dataclass(frozen=True, slots=True)
class ScriptBody:
    """The commands of a script, as far as they decide how ranks start."""

    script: BatchScript
    steps: tuple[SrunStep, ...]
    direct: DirectCommand | None
    """The whole body as one command, if it is that simple."""

    @property
    def gang_steps(self) -> list[SrunStep]:
        """Steps that start processes on more than the first node, or several on it; those that do work first.

        A step such as `srun hostname` counts only if the script does not read its output, and if no command besides
        the steps would be repeated on each node because of it.
        """
        several = [step for step in self.steps if step.is_placed or not step.is_single]
        working = [step for step in several if not step.is_lookup]
        shown = [step for step in several if step.is_lookup and not step.is_substituted]
        return working + (shown if working or not self.other_commands else [])

    @property
    def other_commands(self) -> list[tuple[Place, str]]:
        """Commands besides steps and set-up."""
        steps = {step.place for step in self.steps}
        others = (each for each in self.script.commands if each[0] not in steps)
        return [(place, line) for place, line in others if not _SETUP.match(line.strip())]

    @property
    def has_launcher(self) -> bool:
        """Tells whether torchrun, accelerate or deepspeed starts the ranks of a node."""
        return any(_LAUNCHER.search(line) for _, line in self.script.commands)

    @property
    def launcher_procs(self) -> int | None:
        """Ranks of each node that torchrun's option states as a number."""
        lines = (line for _, line in self.script.commands if _LAUNCHER.search(line))
        return next((procs for line in lines if (procs := procs_of(line.split()))), None)

    @property
    def interpreter(self) -> tuple[str, ...]:
        """Program of the first line, with its options: bash for every shell of POSIX."""
        words = self.script.text.lines[0].removeprefix("#!").split() or ["bash"]
        if words[0].endswith("/env"):
            words = [word for word in words[1:] if not word.startswith("-")] or ["bash"]
        name = words[0].rpartition("/")[2]
        options = tuple(word for word in words[1:] if word.startswith("-"))
        return ("bash" if name in _SHELLS else name, *options)

    @property
    def is_shell(self) -> bool:
        """Tells whether bash runs the body."""
        return self.interpreter[0] == "bash"


def read_body(script: BatchScript) -> ScriptBody:
    """The body of a script."""
    steps = tuple(read_steps(script))
    return ScriptBody(script, steps, read_direct_command(script, steps))


def body_losses(body: ScriptBody, nodes: int, tasks: int) -> Iterator[Loss]:
    """Commands that do less, more or otherwise than under Slurm, each with its line."""
    if body.direct:
        return
    if not body.is_shell:
        yield Loss(Place(1, 1), f"#!{body.interpreter[0]}", "srun and scontrol exist in scripts of bash only")
    yield from _unknown_variables(body.script)
    yield from _programs(body.script)
    yield from _step_losses(body.steps)
    if body.gang_steps and nodes * tasks > 1:
        yield from _repeated_commands(body)
    if nodes > 1 and not body.gang_steps:
        only = "only look-ups" if body.steps else "nothing"
        yield Loss(Place(1, 1), f"{nodes} nodes", f"the script starts {only} by srun: it runs on the first node only")


def _unknown_variables(script: BatchScript) -> Iterator[Loss]:
    seen: set[str] = set()
    for place, line in script.commands:
        for name in _VARIABLE.findall(line):
            if name not in KNOWN_VARIABLES and name not in seen:
                seen.add(name)
                yield Loss(place, f"${name}", "it has no value")


def _programs(script: BatchScript) -> Iterator[Loss]:
    seen: set[str] = set()
    for place, line in script.commands:
        if (found := _MPI.search(line)) and found[1] not in seen:
            seen.add(found[1])
            yield Loss(place, found[1], "it knows no other nodes here; start ranks by srun, or write an MPIJob")
        for name in _SLURM_PROGRAM.findall(line):
            if not re.search(r"scontrol\s+show\s+hostname", line):
                yield Loss(place, name, "it does not exist inside a job")
        if (found := _MODULE.search(line)) and "module" not in seen:
            seen.add("module")
            yield Loss(place, found[1], "environment modules must exist where the job runs, or be part of its image")


def _step_losses(steps: tuple[SrunStep, ...]) -> Iterator[Loss]:
    for step in steps:
        for name, _ in step.options:
            if name in _STEP_REASONS:
                yield Loss(step.place, f"srun {'-' * min(2, len(name))}{name}", _STEP_REASONS[name])
        if step.tasks and not _KNOWN_COUNT.fullmatch(step.tasks):
            yield Loss(step.place, "srun", f"the number of tasks, {step.tasks[:40]}, is not known before; write procs")
        if step.is_single and not step.is_lookup and not step.is_placed and len(steps) > 1:
            yield Loss(step.place, "srun of one task", "the first rank runs it, and the others do not wait for it")


def _repeated_commands(body: ScriptBody) -> Iterator[Loss]:
    """Commands besides steps: Slurm runs them once on the first node, and here every task does."""
    repeated = body.other_commands
    if repeated:
        place, line = repeated[0]
        lines = ", ".join(str(each.line) for each, _ in repeated[:10])
        yield Loss(place, line.split()[0][:40], f"each task runs this command, and not one for all (lines {lines})")
