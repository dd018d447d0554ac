"""Nodes, tasks, CPUs, memory and GPUs that the options of a batch script request together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from windlass.jobs.imports.outcomes import Loss, Outcome, Setting
from windlass.jobs.slurm.batch_script import SbatchOption
from windlass.jobs.slurm.option_values import GpuCount, parse_count, parse_gpus, parse_memory, parse_range
from windlass.jobs.syntax.names import LABEL_VALUE, is_name
from windlass.jobs.syntax.value_types import BYTES

T = TypeVar("T")

SIZE_OPTIONS = frozenset(
    {"--nodes", "--ntasks", "--ntasks-per-node", "--ntasks-per-gpu", "--cpus-per-task", "--cpus-per-gpu", "--mincpus"}
    | {"--gres", "--gpus", "--gpus-per-node", "--gpus-per-task", "--gpus-per-socket", "--tres-per-task"}
    | {"--mem", "--mem-per-cpu", "--mem-per-gpu", "--nodelist"}
)
"""Options that this module reads."""
NO_GPUS = GpuCount(0)
Options = dict[str, SbatchOption]
"""Options by their full names; the last of each name."""


class OptionValueError(ValueError):
    """A value that sbatch refuses too, with its option."""

    def __init__(self, option: SbatchOption, message: str) -> None:
        self.option = option
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class GangSize:
    """Size of a gang. Amounts of GPUs, CPUs and memory are for one node."""

    least_nodes: int = 1
    nodes: int = 1
    tasks: int = 1
    """Tasks on each node."""
    gpus: GpuCount = NO_GPUS
    cpus: int | None = None
    memory: int | None = None
    """None: not requested."""

    @property
    def all_tasks(self) -> int:
        """Tasks of the whole gang."""
        return self.nodes * self.tasks


def read_size(options: Options) -> tuple[GangSize, list[Loss]]:
    """The size that options request, and what is lost of them. Raises OptionValueError."""
    losses: list[Loss] = []
    least, nodes = option_value(options, "--nodes", parse_range) or (0, 0)
    tasks, spread = _tasks(options, nodes, losses)
    nodes = nodes or spread
    gpus = _gpus(options, nodes, tasks, losses)
    if by_gpu := option_value(options, "--ntasks-per-gpu", parse_count):
        tasks = by_gpu * max(1, gpus.number)
    cpus = _cpus(options, tasks, gpus.number)
    return GangSize(
        least or nodes, nodes, tasks, gpus, cpus, _memory(options, tasks, cpus, gpus.number, losses)
    ), losses


def option_value(options: Options, name: str, parse: Callable[[str], T]) -> T | None:
    """The value of an option; None without the option. Raises OptionValueError."""
    option = options.get(name)
    if option is None:
        return None
    try:
        return parse(option.value)
    except ValueError as error:
        raise OptionValueError(option, str(error)) from None


def _tasks(options: Options, nodes: int, losses: list[Loss]) -> tuple[int, int]:
    """Tasks on each node, and the number of nodes where no option states it."""
    each, total = (
        option_value(options, "--ntasks-per-node", parse_count),
        option_value(options, "--ntasks", parse_count),
    )
    if total is None:
        return each or 1, nodes or 1
    place = options["--ntasks"].place
    if each:
        needed = nodes or -(-total // each)
        if nodes and total < nodes * each:  # --ntasks-per-node is then a maximum
            each = -(-total // nodes)
        if total != needed * each:
            losses.append(Loss(place, "--ntasks", f"each node has {each} tasks: {needed * each} and not {total}"))
        return each, needed
    if not nodes:
        if total > 1:
            losses.append(Loss(place, "--ntasks", f"all {total} tasks are on one node; write --nodes to spread them"))
        return total, 1
    tasks = -(-total // nodes)
    if tasks * nodes != total:
        losses.append(Loss(place, "--ntasks", f"each node has {tasks} tasks: {tasks * nodes} and not {total}"))
    return tasks, nodes


def _gpus(options: Options, nodes: int, tasks: int, losses: list[Loss]) -> GpuCount:
    """GPUs of each node, by the first option that has some."""
    found = option_value(options, "--gpus-per-node", parse_gpus) or _gres(options, losses)
    if found:
        return found
    if each := option_value(options, "--gpus-per-task", parse_gpus):
        option = options["--gpus-per-task"]
        if tasks > 1:
            losses.append(Loss(option.place, option.name, "each rank sees all GPUs of its node, and takes LOCAL_RANK"))
        return GpuCount(each.number * tasks, each.type)
    if total := option_value(options, "--gpus", parse_gpus):
        each_node = -(-total.number // nodes)
        if each_node * nodes != total.number:
            option = options["--gpus"]
            losses.append(Loss(option.place, "--gpus", f"each node has {each_node}: {each_node * nodes} in all"))
        return GpuCount(each_node, total.type)
    for name, reason in _WITHOUT_SIZE.items():
        if name in options:
            losses.append(Loss(options[name].place, name, reason))
    return NO_GPUS


_WITHOUT_SIZE = {
    "--gpus-per-socket": "sockets are not known; write gpus",
    "--tres-per-task": "write --gpus-per-task and --cpus-per-task",
}


def _gres(options: Options, losses: list[Loss]) -> GpuCount | None:
    """The GPUs of --gres; other resources are lost."""
    option, found = options.get("--gres"), None
    for part in option.value.split(",") if option else ():
        name = part.strip().split(":")[0]
        if name != "gpu":
            if option and name.lower() != "none":
                losses.append(Loss(option.place, f"--gres={part[:40]}", "only GPUs are resources of a job"))
            continue
        try:
            found = parse_gpus(part.strip())
        except ValueError as error:
            raise OptionValueError(options["--gres"], str(error)) from None
    return found


def _cpus(options: Options, tasks: int, gpus: int) -> int | None:
    """CPUs of each node, one for each of several tasks; None where only GPUs are requested."""
    if each := option_value(options, "--cpus-per-task", parse_count):
        return each * tasks
    if each := option_value(options, "--cpus-per-gpu", parse_count):
        return each * max(1, gpus)
    least = option_value(options, "--mincpus", parse_count) or 0
    return max(least, tasks) if least or tasks > 1 or not gpus else None


def _memory(options: Options, tasks: int, cpus: int | None, gpus: int, losses: list[Loss]) -> int | None:
    """Memory of each node."""
    if (amount := option_value(options, "--mem", parse_memory)) is not None:
        if not amount and "--exclusive" not in options:
            losses.append(Loss(options["--mem"].place, "--mem=0", "no memory is reserved; write mem, or whole_node"))
        return amount or None
    if each := option_value(options, "--mem-per-cpu", parse_memory):
        return each * (cpus or tasks)
    if each := option_value(options, "--mem-per-gpu", parse_memory):
        return each * max(1, gpus)
    return None


def size_fields(size: GangSize, options: Options) -> Iterator[Outcome]:
    """The size as fields of a job of one role, without its ranks."""
    if size.least_nodes < size.nodes:
        yield Setting("elastic", {"min": size.least_nodes, "max": size.nodes})
    elif size.nodes > 1:
        yield Setting("nodes", size.nodes)
    yield from _gpu_fields(size.gpus, options)
    if size.cpus is not None:
        yield Setting("cpus", size.cpus)
    if size.memory:
        yield Setting("mem", BYTES.write(max(size.memory, 2**20)))
    if option := options.get("--nodelist"):
        yield Loss(option.place, "--nodelist", "nodes are not chosen by name; write selector or affinity")


def _gpu_fields(gpus: GpuCount, options: Options) -> Iterator[Outcome]:
    if gpus.mig_profile and gpus.number == 1:
        yield Setting("mig", gpus.mig_profile)
        return
    if gpus.number:
        yield Setting("gpus", gpus.number)
    if gpus.mig_profile:
        place = next(option.place for name, option in options.items() if name in _GPU_OPTIONS)
        yield Loss(place, gpus.type[:40], f"a node has one slice of a GPU, not {gpus.number}: whole ones are requested")
    elif gpus.type and is_name(LABEL_VALUE, gpus.type):
        yield Setting("gpu_type", [gpus.type])


_GPU_OPTIONS = ("--gpus-per-node", "--gres", "--gpus-per-task", "--gpus")
