"""Checks of versions that must work together: torch, its CUDA, the driver, the GPUs and NCCL."""

from __future__ import annotations

from collections.abc import Iterator

from windlass.diagnose.host.compatibility import (
    CAPABILITY_SOURCE,
    DRIVER_SOURCE,
    least_driver,
    parse_version,
    show_version,
    supports_capability,
)
from windlass.diagnose.host.facts import HostFacts, TorchPackage
from windlass.diagnose.steps import CheckStep, State, absent, ok, unseen

_FORWARD_SOURCE = "https://docs.nvidia.com/deploy/cuda-compatibility/forward-compatibility.html"
_INDEX = "pip install torch --index-url https://download.pytorch.org/whl/cuXYZ"


def check_frameworks(facts: HostFacts) -> Iterator[CheckStep]:
    """Yields the steps of the framework; one step if torch is not installed in this environment."""
    torch = facts.torch
    if torch is None:
        yield absent("framework.torch", "not installed in the Python environment of windlass")
        return
    yield _check_torch(facts, torch)
    yield _check_driver(facts, torch)
    yield _check_capability(facts, torch)
    yield _check_nccl(facts, torch)


def _check_torch(facts: HostFacts, torch: TorchPackage) -> CheckStep:
    name, built = "framework.torch", f"CUDA {torch.cuda}" if torch.cuda else "the CPU"
    if facts.has_gpus and not torch.cuda:
        text = f"torch {torch.version} is built for the CPU: torch.cuda.is_available() is False"
        return CheckStep(name, State.WRONG, text, _INDEX)
    return ok(name, f"torch {torch.version}, built for {built}")


def _check_driver(facts: HostFacts, torch: TorchPackage) -> CheckStep:
    name, driver = "framework.cuda_driver", facts.driver or facts.nvml.driver
    if not torch.cuda or not driver:
        return absent(name, "no driver is loaded" if torch.cuda else "torch uses no CUDA")
    least = least_driver(torch.cuda)
    if not least:
        return unseen(name, f"the table does not know CUDA {torch.cuda}")
    compatible = facts.compatible_driver
    if parse_version(driver) < least <= parse_version(compatible):
        text = f"driver {driver} with the forward compatibility package {compatible} runs CUDA {torch.cuda}"
        fix = "its folder must be in LD_LIBRARY_PATH; it works on data centre GPUs only"
        return CheckStep(name, State.WARNING, text, fix, source=_FORWARD_SOURCE)
    if parse_version(driver) < least:
        text = f"driver {driver} is too old for CUDA {torch.cuda}, which needs {show_version(least)}"
        fix = f"install a driver of at least {show_version(least)}, or a torch for an older CUDA: {_INDEX}"
        return CheckStep(name, State.WRONG, text, fix, source=DRIVER_SOURCE)
    return ok(name, f"driver {driver} runs CUDA {torch.cuda} (at least {show_version(least)})")


def _check_capability(facts: HostFacts, torch: TorchPackage) -> CheckStep:
    name = "framework.gpu_architecture"
    capabilities = sorted({gpu.capability for gpu in facts.nvml.gpus if gpu.capability})
    if not torch.cuda or not capabilities:
        return absent(name, "no GPU to compare with" if torch.cuda else "torch uses no CUDA")
    answers = {capability: supports_capability(torch.cuda, capability) for capability in capabilities}
    missing = [f"sm_{major}{minor}" for (major, minor), answer in answers.items() if answer is False]
    if missing:
        text = f"CUDA {torch.cuda} does not compile for {', '.join(missing)}: no kernel image is available"
        return CheckStep(
            name, State.WRONG, text, f"install a torch for a CUDA that does: {_INDEX}", source=CAPABILITY_SOURCE
        )
    shown = ", ".join(f"sm_{major}{minor}" for major, minor in capabilities)
    if None in answers.values():
        return unseen(name, f"the table does not know all of {shown}")
    return ok(name, f"CUDA {torch.cuda} knows {shown}")


def _check_nccl(facts: HostFacts, torch: TorchPackage) -> CheckStep:
    name = "framework.nccl"
    installed = {package: version for package, version in facts.packages.items() if package.startswith("nvidia-nccl")}
    if facts.preloaded:
        text = "LD_PRELOAD or LD_LIBRARY_PATH puts another NCCL before torch's own: ranks may load different versions"
        fix = "remove these paths from the environment, or use the same image on all nodes"
        return CheckStep(name, State.WARNING, text, fix, facts.preloaded)
    if not torch.nccl:
        return absent(name, "torch names no NCCL package" if torch.cuda else "torch uses no CUDA")
    if not installed:
        text = f"torch {torch.version} needs NCCL {torch.nccl}, which is not installed as a package"
        return CheckStep(name, State.WARNING, text, "pip install --force-reinstall torch, unless the image brings NCCL")
    wrong = {package: version for package, version in installed.items() if version != torch.nccl}
    if wrong:
        shown = ", ".join(f"{package} {version}" for package, version in wrong.items())
        fix = f"pip install {next(iter(wrong))}=={torch.nccl}"
        return CheckStep(name, State.WRONG, f"torch {torch.version} needs NCCL {torch.nccl}, installed is {shown}", fix)
    return ok(name, f"NCCL {torch.nccl}, as torch needs")
