"""Builds dumps in the structure of torch 2.13's flight recorder of NCCL: calls of ranks → content, pickle and files."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from windlass.diagnose.flight.dump_format import parse_dump
from windlass.diagnose.flight.records import FlightDump

BEGIN_NS = 1_700_000_000_000_000_000
DEFAULT = ("0", "default_pg")
TORCH_FRAME = {
    "name": "wrapper",
    "filename": "/env/lib/python3.11/site-packages/torch/distributed/c10d_logger.py",
    "line": 83,
}


def call(
    name: str = "all_reduce",
    number: int = 1,
    *,
    state: str = "completed",
    sizes: Sequence[int] = (8,),
    dtype: str = "Float",
    group: tuple[str, str] = DEFAULT,
    at: str = "train.py:10 in step",
    is_p2p: bool | None = None,
    after_s: float = 0.0,
) -> dict[str, Any]:
    """Returns one entry. `number`: of the collective or the transfer; `after_s`: time since the first call."""
    file, _, place = at.partition(":")
    line, _, function = place.partition(" in ")
    own = name.startswith(("send", "recv"))
    p2p = own if is_p2p is None else is_p2p
    started = BEGIN_NS if state in ("started", "completed") else None
    return {
        "frames": [TORCH_FRAME, {"name": function, "filename": f"/job/{file}", "line": int(line)}],
        "record_id": 0,
        "pg_id": int(group[0]) if group[0].isdecimal() else 0,
        "process_group": group,
        "thread_name": "python",
        "thread_id": "139",
        "collective_seq_id": 0 if p2p else number,
        "p2p_seq_id": number if p2p else 0,
        "op_id": number,
        "profiling_name": f"nccl:{name}",
        "time_created_ns": BEGIN_NS + int(after_s * 1e9),
        "input_sizes": [list(sizes)],
        "input_dtypes": [dtype],
        "output_sizes": [list(sizes)],
        "output_dtypes": [dtype],
        "state": state,
        "time_discovered_started_ns": started,
        "time_discovered_completed_ns": BEGIN_NS if state == "completed" else None,
        "retired": state == "completed",
        "timeout_ms": 600_000,
        "is_p2p": p2p,
    }


def content(
    calls: Sequence[Mapping[str, Any]], groups: Mapping[tuple[str, str], Sequence[int]], first_record: int = 0
) -> dict[str, Any]:
    """Returns the content of a dump. `first_record`: number of entries that a full buffer has lost."""
    entries = [{**each, "record_id": first_record + index} for index, each in enumerate(calls)]
    config = {
        name: {"name": name, "desc": description, "ranks": str(list(ranks))}
        for (name, description), ranks in groups.items()
    }
    return {"version": "2.10", "comm_lib_version": "2.28.9", "pg_config": config, "pg_status": {}, "entries": entries}


def dumps_of(
    calls: Mapping[int, Sequence[Mapping[str, Any]]],
    groups: Mapping[tuple[str, str], Sequence[int]] | None = None,
    lost: Mapping[int, int] | None = None,
) -> list[FlightDump]:
    """Returns the dumps of ranks, which are all members of the default group unless `groups` says otherwise."""
    members = groups or {DEFAULT: sorted(calls)}
    return [
        parse_dump(as_pickle(content(each, members, (lost or {}).get(rank, 0))), rank, f"nccl_trace_rank_{rank}")
        for rank, each in calls.items()
    ]


def as_pickle(content: Mapping[str, Any]) -> bytes:
    return pickle.dumps(content, protocol=2)


def as_json(content: Mapping[str, Any]) -> bytes:
    """Returns the JSON form: torch writes no frames into it, and 0 for times that are unknown."""
    bare = [
        {name: 0 if each[name] is None else each[name] for name in each if name != "frames"}
        for each in content["entries"]
    ]
    return json.dumps({**content, "entries": bare}, sort_keys=True).encode()


def write_dumps(
    folder: Path,
    calls: Mapping[int, Sequence[Mapping[str, Any]]],
    groups: Mapping[tuple[str, str], Sequence[int]] | None = None,
) -> list[Path]:
    """Writes the dumps of ranks under torch's names."""
    members = groups or {DEFAULT: sorted(calls)}
    paths = []
    for rank, each in calls.items():
        path = folder / f"nccl_trace_rank_{rank}"
        path.write_bytes(as_pickle(content(each, members)))
        paths.append(path)
    return paths
