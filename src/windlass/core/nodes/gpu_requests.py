"""Validation of requests for GPUs, parts of them and GPU models; each fault names a valid alternative."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from windlass.core.model.gang import Demand
from windlass.core.model.mig import GEOMETRIES, PREFIX
from windlass.core.model.resources import GPU, GPU_MILLI, GPU_TYPE, WHOLE
from windlass.core.model.snapshot import NodeTable
from windlass.core.nodes import affinity
from windlass.core.nodes.device_assignment import asks_for_gpus, gpu_part_of

_SHOWN = 12


def request_fault(demands: Sequence[Demand]) -> str:
    """Returns the fault of demands that are invalid on every cluster, or ""."""
    for demand in demands:
        if fault := _fault_of_parts(demand) or affinity.affinity_fault(demand.affinity):
            return f"role {demand.role}: {fault}" if len(demands) > 1 else fault
    if demands and demands[0].gpu_types and not any(asks_for_gpus(demand.resources) for demand in demands):
        return (
            f"names the GPU {_join_names(demands[0].gpu_types)} and asks for no GPU; ask for one, or leave the name out"
        )
    return ""


def unavailability(table: NodeTable, demands: Sequence[Demand]) -> str:
    """Returns the fault of demands that no node of this cluster can meet, or ""; "" without nodes."""
    if not table.nodes:
        return ""
    return next((fault for demand in demands if (fault := _missing_parts(table, demand))), "") or _missing_model(
        table, demands
    )


def _fault_of_parts(demand: Demand) -> str:
    part, whole = gpu_part_of(demand.resources), demand.resources.get(GPU, 0)
    parts = [name for name in sorted(demand.resources) if demand.resources[name] and gpu_part_of({name: 1})]
    if len(parts) > 1:
        return f"asks for {_join_names(parts, ' and ')} in one replica; ask for one kind of part, or use two roles"
    if part and whole:
        return f"asks for whole GPUs and for {part} in one replica; ask for one or the other, or use two roles"
    milli = demand.resources.get(GPU_MILLI, 0)
    if milli > WHOLE:
        return f"asks for {milli} thousandths of one GPU; a GPU has {WHOLE}, so ask for {-(-milli // WHOLE)} whole ones"
    known = {PREFIX + profile.name for geometry in GEOMETRIES.values() for profile in geometry.profiles}
    if part.startswith(PREFIX) and part not in known:
        return f"there is no MIG profile {part.removeprefix(PREFIX)}; {_hint(part, known)}"
    return ""


def _missing_parts(table: NodeTable, demand: Demand) -> str:
    part = gpu_part_of(demand.resources)
    if part and _most(table, part) == 0:
        if part == GPU_MILLI:
            return "no node shares its GPUs in thousandths; ask for whole ones, or declare `sharing: milli` for a node"
        offered = [name for name in table.resource_names if name.startswith(PREFIX) and _most(table, name)]
        there = (
            _hint(part, offered) if offered else "no node is declared with `sharing: mig` and a gpu-type that has it"
        )
        return f"no node offers the MIG profile {part.removeprefix(PREFIX)}; {there}"
    by_profile = [name for name in table.resource_names if name.startswith(PREFIX) and _most(table, name)]
    if demand.resources.get(GPU, 0) and by_profile and _most(table, GPU) == 0:
        return f"all GPUs are given in MIG profiles; ask for one of them: {_join_names(by_profile)}"
    return ""


def _missing_model(table: NodeTable, demands: Sequence[Demand]) -> str:
    """Returns the fault if no node has any of the requested models, or ""."""
    requested = demands[0].gpu_types
    models = sorted({node.labels[GPU_TYPE] for node in table.nodes if GPU_TYPE in node.labels})
    if not requested or set(requested) & set(models):
        return ""
    return f"no node has the GPU {_join_names(requested)}; {_hint(requested[0], models)}"


def _most(table: NodeTable, resource: str) -> int:
    column = table.column.get(resource)
    return 0 if column is None else int(table.capacity[:, column].max(initial=0))


def _hint(requested: str, known: Iterable[str]) -> str:
    names = sorted(known)
    near = get_close_matches(requested, names, n=1)
    if near:
        return f"did you mean {near[0].removeprefix(PREFIX)}?"
    return f"there are {_join_names(names, ', ')}" if names else "no node says which it has (label gpu-type)"


def _join_names(names: Sequence[str], between: str = " or ") -> str:
    shown = [name.removeprefix(PREFIX) for name in names[:_SHOWN]]
    return between.join(shown) + (" …" if len(names) > _SHOWN else "")
