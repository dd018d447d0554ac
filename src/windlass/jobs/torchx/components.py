"""The built-in components `dist.ddp`, `utils.sh` and `utils.python` of TorchX 0.7: options, and the app of each."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from windlass.jobs.torchx.role import AppRole

_SIZES = ("cpu", "gpu", "memMB", "h", "image")
_NODES = re.compile(r"(?:(?:(?P<least>[0-9]{1,5}):)?(?P<most>[0-9]{1,5})x)?(?P<procs>[0-9]{1,4})")
OPTIONS: Mapping[str, tuple[str, ...]] = {
    "dist.ddp": (
        *("script", "m", "name", "j", "env", "max_retries", "mounts", "debug", "tee", "script_args"),
        *("rdzv_port", "rdzv_backend", *_SIZES),
    ),
    "utils.sh": ("num_replicas", "env", "max_retries", "mounts", "args", *_SIZES),
    "utils.python": ("m", "c", "script", "name", "num_replicas", "args", *_SIZES),
}
"""Component → its options, by the names of its parameters."""


class ComponentError(ValueError):
    """An option that a component does not take. `option` is its name."""

    def __init__(self, option: str, message: str) -> None:
        super().__init__(message)
        self.option = option


@dataclass(frozen=True, slots=True)
class ComponentApp:
    """The app of a component."""

    name: str
    role: AppRole


def component_app(component: str, options: Mapping[str, str], arguments: Sequence[str]) -> ComponentApp:
    """The app of a built-in component. Raises ComponentError."""
    if options.get("h"):
        raise ComponentError("h", "is a named resource, which TorchX alone knows; write cpu, gpu and memMB instead")
    match component:
        case "dist.ddp":
            return _ddp(options, [*_words(options, "script_args"), *arguments])
        case "utils.sh":
            words = [*_words(options, "args"), *arguments]
            command = ["sh", "-c", " ".join(map(shlex.quote, words))]
            return ComponentApp("sh", _sized("sh", command, options, cpu=1))
        case _:
            return _python(options, [*_words(options, "args"), *arguments])


def _ddp(options: Mapping[str, str], arguments: Sequence[str]) -> ComponentApp:
    found = _NODES.fullmatch(options.get("j", "1x2"))
    if not found:
        raise ComponentError("j", f"expects nodes and processes, such as 2x8 or 1:2x8, not {options['j'][:40]!r}")
    program, name = _program(options, ("script", "m"))
    command = ["torchrun", "--nproc_per_node", found["procs"], *program, *arguments]
    role = _sized(name, command, options, cpu=2)
    most = int(found["most"] or 1)
    sized = AppRole(
        name, command, role.image, role.env, most, int(found["least"] or most), role.max_retries, role.cpu, role.gpu,
        role.mem_mb,
    )  # fmt: skip
    return ComponentApp(_run_name(options.get("name", "/")) or name, sized)


def _python(options: Mapping[str, str], arguments: Sequence[str]) -> ComponentApp:
    program, _ = _program(options, ("script", "m", "c"))
    role = _sized("python", ["python", *program, *arguments], options, cpu=1)
    return ComponentApp(options.get("name", "torchx_utils_python"), role)


def _program(options: Mapping[str, str], names: Sequence[str]) -> tuple[list[str], str]:
    """The words of the program, and its name: exactly one of the options gives it."""
    given = [name for name in names if options.get(name)]
    if len(given) != 1:
        raise ComponentError(names[0], f"expects a program: write one of {', '.join(names)}")
    value = options[given[0]]
    if given[0] == "script":
        return [value], PurePath(value).stem
    return [f"-{given[0]}", value], value.rpartition(".")[2] if given[0] == "m" else "python"


def _words(options: Mapping[str, str], name: str) -> list[str]:
    try:
        return shlex.split(options.get(name, ""))
    except ValueError as error:
        raise ComponentError(name, f"expects balanced quotes ({str(error).lower()})") from None


def _run_name(name: str) -> str:
    """The name of a run in EXPERIMENT/RUN; "" if there is none."""
    return name.rpartition("/")[2]


def _sized(name: str, command: Sequence[str], options: Mapping[str, str], cpu: int) -> AppRole:
    pairs = [each.partition("=") for each in re.split("[,;]", options.get("env", "")) if each]
    return AppRole(
        name=name,
        command=command,
        image=options.get("image", ""),
        env={key: value for key, _, value in pairs},
        replicas=_whole(options, "num_replicas", 1),
        max_retries=_whole(options, "max_retries", 0),
        cpu=_whole(options, "cpu", cpu),
        gpu=_whole(options, "gpu", 0),
        mem_mb=_whole(options, "memMB", 1024),
    )


def _whole(options: Mapping[str, str], name: str, default: int) -> int:
    if name not in options:
        return default
    if not re.fullmatch("[0-9]{1,7}", options[name]):
        raise ComponentError(name, f"expects a whole number, not {options[name][:40]!r}")
    return int(options[name])
