"""Checks of the GPUs' health: memory errors, clocks, NVLink, and direct access between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from windlass.diagnose.host.facts import GpuReading, HostFacts
from windlass.diagnose.steps import CheckStep, State, absent, ok, unseen

_CLOCK_REASONS = {
    0x04: "power limit",
    0x08: "hardware slowdown",
    0x20: "temperature, by the driver",
    0x40: "temperature, by the hardware",
    0x80: "power brake from outside",
}
"""Bits of NVML's clock event reasons that lower the clock. Power limit alone is normal under load."""
_FAULTS = 0x08 | 0x20 | 0x40 | 0x80
_P2P_STATES = {1: "chipset", 2: "GPU", 3: "IOH topology", 4: "disabled by a registry key", 5: "not supported"}
_MEMORY_SOURCE = "https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/index.html"


def check_gpus(facts: HostFacts) -> Iterator[CheckStep]:
    """Yields the steps about the health of the GPUs; one step if NVML lists none."""
    gpus = facts.nvml.gpus
    if not gpus:
        name, text = "gpu.health", "NVML lists no GPU"
        yield unseen(name, text) if facts.has_gpus else absent(name, text)
        return
    for check in (_check_ecc, _check_repairs, _check_clocks, _check_nvlink, _check_peers, _check_use):
        yield check(gpus)


def _show(gpus: tuple[GpuReading, ...], is_meant: Callable[[GpuReading], object]) -> str:
    """Returns the indices of the GPUs for which `is_meant` holds, "" for none."""
    return ", ".join(str(gpu.index) for gpu in gpus if is_meant(gpu))


def _check_ecc(gpus: tuple[GpuReading, ...]) -> CheckStep:
    name = "gpu.ecc"
    if hit := _show(gpus, lambda gpu: gpu.uncorrected):
        total = sum(gpu.uncorrected or 0 for gpu in gpus)
        text = f"{total} uncorrected memory errors since the last reset on GPU {hit}"
        fix = "drain the node and reset these GPUs: nvidia-smi --gpu-reset -i INDEX; if it repeats: dcgmi diag -r 3"
        return CheckStep(name, State.WRONG, text, fix, source=_MEMORY_SOURCE)
    if off := _show(gpus, lambda gpu: gpu.ecc is False):
        text = f"off on GPU {off}: memory errors corrupt results without notice"
        return CheckStep(name, State.WARNING, text, "nvidia-smi -e 1, then reboot")
    if changed := _show(gpus, lambda gpu: gpu.ecc_pending):
        return CheckStep(
            name, State.WARNING, f"the mode of GPU {changed} changes at the next reboot", "reboot the node"
        )
    if all(gpu.ecc is None for gpu in gpus):
        return absent(name, "these GPUs have no ECC")
    return ok(name, "on, no uncorrected errors")


def _check_repairs(gpus: tuple[GpuReading, ...]) -> CheckStep:
    """Rows are remapped from Ampere on, pages are retired before."""
    name = "gpu.repaired_memory"
    if failed := _show(gpus, lambda gpu: gpu.remapping_failed):
        text = f"row remapping failed on GPU {failed}: no spare rows are left"
        return CheckStep(name, State.WRONG, text, "drain the node, replace the GPU", source=_MEMORY_SOURCE)
    if pending := _show(gpus, lambda gpu: gpu.remapping_pending or gpu.retirement_pending):
        text = f"a repair of the memory of GPU {pending} waits for a reset: the faulty memory is still in use"
        fix = "drain the node, then: nvidia-smi --gpu-reset -i INDEX, or reboot"
        return CheckStep(name, State.WRONG, text, fix, source=_MEMORY_SOURCE)
    if old := _show(gpus, lambda gpu: (gpu.retired or 0) >= 60):
        text = f"60 or more pages are retired on GPU {old}"
        return CheckStep(name, State.WARNING, text, "NVIDIA replaces such boards: open a service request")
    repaired = sum((gpu.remapped or 0) + (gpu.retired or 0) for gpu in gpus)
    if all(gpu.remapped is None and gpu.retired is None for gpu in gpus):
        return absent(name, "these GPUs do not report repairs")
    return ok(name, f"{repaired} rows or pages repaired, none pending")


def _check_clocks(gpus: tuple[GpuReading, ...]) -> CheckStep:
    name = "gpu.clocks"
    if all(gpu.clock_reasons is None for gpu in gpus):
        return absent(name, "these GPUs do not report reasons")
    slowed = [gpu for gpu in gpus if (gpu.clock_reasons or 0) & _FAULTS]
    if slowed:
        lines = [f"GPU {gpu.index}: {_reasons(gpu)}, {gpu.sm_clock} of {gpu.max_sm_clock} MHz" for gpu in slowed]
        lines = [f"{line}, {gpu.temperature} °C" for line, gpu in zip(lines, slowed, strict=True)]
        fix = "check fans, inlet temperature and power supplies; nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER"
        return CheckStep(name, State.WRONG, f"{len(slowed)} GPUs are slowed down", fix, tuple(lines))
    limited = _show(gpus, lambda gpu: (gpu.clock_reasons or 0) & 0x04)
    clocks = [gpu.sm_clock for gpu in gpus if gpu.sm_clock]
    shown = f", SM clock {min(clocks)} to {max(clocks)} MHz now" if clocks else ""
    return ok(name, ("at the power limit, as under load" if limited else "not slowed down") + shown)


def _reasons(gpu: GpuReading) -> str:
    bits = gpu.clock_reasons or 0
    return ", ".join(text for bit, text in _CLOCK_REASONS.items() if bits & bit)


def _check_nvlink(gpus: tuple[GpuReading, ...]) -> CheckStep:
    name = "gpu.nvlink"
    linked = [gpu for gpu in gpus if gpu.links_up or gpu.links_down]
    if not linked:
        return absent(name, "no NVLink")
    most = max(gpu.links_up or 0 for gpu in linked)
    lines = [f"GPU {gpu.index}: {gpu.links_up} of {most}" for gpu in linked if (gpu.links_up or 0) < most]
    if not most or lines:
        text = "GPUs have fewer active NVLinks than others" if lines else "no NVLink is active"
        fix = "nvidia-smi nvlink --status; restart the fabric manager or the node; if it repeats, have it serviced"
        return CheckStep(name, State.WRONG, text, fix, tuple(lines))
    return ok(name, f"{most} links active on each of {len(linked)} GPUs")


def _check_peers(gpus: tuple[GpuReading, ...]) -> CheckStep:
    name = "gpu.peer_access"
    statuses = {(gpu.index, peer): status for gpu in gpus for peer, status in gpu.peers.items()}
    if not statuses:
        return absent(name, "one GPU" if len(gpus) == 1 else "not reported")
    refused = {pair: status for pair, status in statuses.items() if status}
    if not refused:
        return ok(name, "every pair of GPUs can read each other's memory")
    reasons = sorted({_P2P_STATES.get(status, "unknown") for status in refused.values()})
    text = f"{len(refused)} of {len(statuses)} pairs cannot read each other directly ({', '.join(reasons)})"
    pairs = tuple(f"{reader} ↔ {peer}" for reader, peer in sorted(refused) if reader < peer)[:10]
    fix = "nvidia-smi topo -p2p r; NCCL uses shared memory instead, which is slower; some models never have it"
    return CheckStep(name, State.WARNING, text, fix, pairs)


def _check_use(gpus: tuple[GpuReading, ...]) -> CheckStep:
    """Memory in use on an idle node is a leftover process; on a busy one it is the work."""
    name = "gpu.memory_in_use"
    used = [gpu for gpu in gpus if gpu.memory_total and (gpu.memory_used or 0) > 0.05 * gpu.memory_total]
    if not used:
        return ok(name, "all GPUs are free")
    shares = [f"GPU {gpu.index} {(gpu.memory_used or 0) / (gpu.memory_total or 1):.0%}" for gpu in used]
    return ok(name, f"in use: {', '.join(shares)}")
