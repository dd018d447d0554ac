"""Rules about commands of containers, and variables that Kubernetes, a device plugin or an operator sets."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import PurePath

from windlass.diagnose.lint.findings import Hit, RuleSeverity
from windlass.diagnose.lint.pod_templates import RAY_KINDS, Container, PodTemplate
from windlass.diagnose.lint.rule import Subject, rule
from windlass.jobs.syntax.command_line import is_standalone, procs_of

_ENV = "https://kubernetes.io/docs/tasks/inject-data-application/define-environment-variable-container/"
_COMMAND = "https://kubernetes.io/docs/tasks/inject-data-application/define-command-argument-container/"
_TORCHRUN = "https://docs.pytorch.org/docs/stable/elastic/run.html"
_NCCL = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html"
_SHELLS = ("sh", "bash", "dash", "ash", "zsh")
_REFERENCE = re.compile(r"(?<!\$)\$\(([-._a-zA-Z][-._a-zA-Z0-9]*)\)")
_RANKS = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")


@rule(RuleSeverity.ERROR, Subject.CONTAINER, fix="Write the value in quotes.", source=_ENV)
def env_value_no_text(container: Container) -> Iterator[Hit]:
    """Values of variables are text: the API server refuses an unquoted number or boolean."""
    for entry in container.env.values():
        value = entry["value"]
        if value and not isinstance(value.plain, str) and value.is_scalar:
            yield value.hit_value(f"{entry['name'].text[:60]}: {value.text[:40]} is not in quotes", f'"{value.text}"')


@rule(RuleSeverity.WARNING, Subject.CONTAINER, fix="Keep one of the two.", source=_ENV)
def env_twice(container: Container) -> Iterator[Hit]:
    """The last entry of a name wins, and server-side apply refuses the list."""
    entries = container.value["env"].items
    counts = Counter(entry["name"].text for entry in entries)
    seen = set[str]()
    for entry in entries:
        name = entry["name"].text
        if counts[name] > 1 and name in seen:
            yield entry["name"].hit(f"the variable {name[:60]} is set twice")
        seen.add(name)


@rule(
    RuleSeverity.WARNING,
    Subject.CONTAINER,
    fix="Move the variable before the one that names it.",
    source="https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/",
)
def env_reference_before_value(container: Container) -> Iterator[Hit]:
    """$(NAME) is replaced only by variables earlier in the list; a later one leaves the text as it is."""
    later = Counter(entry["name"].text for entry in container.value["env"].items)
    for entry in container.value["env"].items:
        later[entry["name"].text] -= 1
        for name in _REFERENCE.findall(entry["value"].text):
            if later[name] > 0 and name != entry["name"].text:
                yield entry["value"].hit(f"{entry['name'].text[:60]} names $({name[:60]}), which is set after it")


@rule(RuleSeverity.ERROR, Subject.CONTAINER, fix="Write a list: [python, train.py].", source=_COMMAND)
def command_no_list(container: Container) -> Iterator[Hit]:
    """Command and arguments are lists of words: the API server refuses a text."""
    for name in ("command", "args"):
        if (value := container.value[name]) and not value.is_list:
            yield value.hit_value(f"{name} is no list")


@rule(RuleSeverity.ERROR, Subject.CONTAINER, fix="Write the word in quotes.", source=_COMMAND)
def command_word_no_text(container: Container) -> Iterator[Hit]:
    """Words of a command are text: the API server refuses an unquoted number or boolean."""
    for name in ("command", "args"):
        for word in container.value[name].items:
            if word.is_scalar and not isinstance(word.plain, str):
                yield word.hit_value(f"{name}: {word.text[:40]} is not in quotes", f'"{word.text}"')


@rule(RuleSeverity.ERROR, Subject.CONTAINER, fix='Split it into words, or write ["sh", "-c", "…"].', source=_COMMAND)
def command_in_one_word(container: Container) -> Iterator[Hit]:
    """The first word is the name of a program; with arguments in it, no such file exists."""
    command = [] if container.pod.kind in RAY_KINDS else container.value["command"].items  # KubeRay joins the words
    first = command[0].text if command else ""
    program, _, arguments = first.partition(" ")
    if arguments.strip() and "\n" not in first and not program.startswith(("$", "#")):
        yield command[0].hit(f"{first[:60]!r} is one word")


@rule(RuleSeverity.ERROR, Subject.CONTAINER, fix="Write -c before the script.", source=_COMMAND)
def shell_without_c(container: Container) -> Iterator[Hit]:
    """Without -c a shell takes its argument for the name of a file."""
    line = container.line
    if len(line) == 2 and PurePath(line[0]).name in _SHELLS and re.search(r"\s(&&|\|\||\|)\s|;\s", line[1]):
        yield container.value["command"].hit(f"{line[0]} runs a file called {line[1][:40]!r}")


@rule(RuleSeverity.ERROR, Subject.CONTAINER, fix="Join the script into one word.", source=_COMMAND)
def shell_script_in_words(container: Container) -> Iterator[Hit]:
    """After -c a shell runs one word as the script; the next ones become $0, $1 and are not run."""
    line = [word for number, word in enumerate(container.line) if word != "--" or number != 2]
    if len(line) > 3 and PurePath(line[0]).name in _SHELLS and re.fullmatch("-[a-z]*c", line[1]):
        script = line[2]
        if re.fullmatch(r"[\w./-]+", script):
            yield container.value["command"].hit(f"{line[0]} runs {script[:40]!r} alone, without {line[3][:40]!r}")


@rule(
    RuleSeverity.ERROR,
    Subject.CONTAINER,
    fix="Remove --standalone; where no operator sets PET_NNODES, write --nnodes, --node-rank and --master-addr.",
    source=_TORCHRUN,
)
def torchrun_standalone_on_several_nodes(container: Container) -> Iterator[Hit]:
    """--standalone starts a rendezvous for one node, so each pod trains alone."""
    pods = max(container.pod.gang_pods or 1, container.pod.replicas)
    if container.pod.is_gang and pods > 1 and is_standalone(container.words):
        yield container.command.hit(f"torchrun --standalone in {pods} pods")


@rule(
    RuleSeverity.WARNING,
    Subject.CONTAINER,
    fix="Start one process for each GPU: --nproc-per-node gpu.",
    source=_TORCHRUN,
)
def torchrun_processes_differ(container: Container) -> Iterator[Hit]:
    """Ranks beyond the GPUs of the pod share or lack one; GPUs beyond the ranks stay idle."""
    processes = procs_of(container.words)
    if processes and container.gpus and processes != container.gpus:
        yield container.command.hit(f"--nproc-per-node {processes} with {container.gpus} GPUs")


@rule(
    RuleSeverity.WARNING,
    Subject.POD,
    fix="Write the number of GPUs of a pod, or auto.",
    source="https://www.kubeflow.org/docs/components/trainer/legacy-v1/user-guides/pytorch/",
    kinds="PyTorchJob TrainJob",
)
def processes_field_differs(pod: PodTemplate) -> Iterator[Hit]:
    """The operator starts so many ranks in each pod: those beyond the GPUs fail, GPUs beyond them stay idle."""
    spec = pod.root["spec"]
    number = spec["nprocPerNode"] or spec.at("trainer", "numProcPerNode")
    for container in pod.containers:
        if number.text.isdecimal() and container.gpus and int(number.text) != container.gpus:
            yield number.hit_value(f"{number.name} is {number.text}; a pod has {container.gpus} GPUs")


@rule(RuleSeverity.WARNING, Subject.CONTAINER, fix="Start the script with torchrun.", source=_TORCHRUN)
def torch_launch_obsolete(container: Container) -> Iterator[Hit]:
    """torch.distributed.launch is deprecated: torchrun replaced it and passes LOCAL_RANK as a variable."""
    if "torch.distributed.launch" in container.words:
        yield container.command.hit("torch.distributed.launch was replaced by torchrun")


@rule(
    RuleSeverity.WARNING,
    Subject.CONTAINER,
    fix="Remove the variable; the device plugin sets it.",
    source="https://github.com/NVIDIA/k8s-device-plugin#deviceliststrategy",
)
def nvidia_visible_devices_set(container: Container) -> Iterator[Hit]:
    """The container gets GPUs of other pods: the variable selects devices without the scheduler's knowledge."""
    value = container.env.get("NVIDIA_VISIBLE_DEVICES")
    if value and value["value"].text not in ("", "void", "none") and container.pod.kind != "DaemonSet":
        yield value["name"].hit(f"NVIDIA_VISIBLE_DEVICES={value['value'].text[:40]}")


@rule(
    RuleSeverity.WARNING,
    Subject.CONTAINER,
    fix="Remove the variable; a container sees just its own GPUs.",
    source="https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#env-vars",
)
def cuda_visible_devices_set(container: Container) -> Iterator[Hit]:
    """Numbers within a container begin at 0; a number beyond its GPUs hides them all."""
    value = container.env.get("CUDA_VISIBLE_DEVICES")
    if value and container.gpus and value["value"].text:
        numbers = value["value"].text.split(",")
        if any(number.isdecimal() and int(number) >= container.gpus for number in numbers):
            yield value["value"].hit_value(f"CUDA_VISIBLE_DEVICES={','.join(numbers)[:40]} with {container.gpus} GPUs")


@rule(
    RuleSeverity.WARNING,
    Subject.CONTAINER,
    fix="Remove it; the operator sets it for each pod.",
    source="https://www.kubeflow.org/docs/components/trainer/legacy-v1/user-guides/pytorch/",
)
def rank_variable_set(container: Container) -> Iterator[Hit]:
    """The operator sets this variable to another value in each pod; one for all pods breaks the rendezvous."""
    if container.pod.kind in ("PyTorchJob", "TrainJob"):
        for name in _RANKS:
            if name in container.env and container.env[name]["value"]:
                yield container.env[name]["name"].hit(f"{name} is set in a {container.pod.kind}")
