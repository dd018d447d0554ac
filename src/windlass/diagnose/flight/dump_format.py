"""Reads the content of a dump of torch's flight recorder: pickle or JSON, of NCCL or gloo, format 2.

Every field is hostile until its type is checked. Texts are bounded, and controls in them are escaped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any

from windlass import wire
from windlass.diagnose.flight.plain_pickle import load_plain
from windlass.diagnose.flight.program_frames import program_frame
from windlass.diagnose.flight.records import (
    DumpError,
    FlightDump,
    FlightEntry,
    Progress,
    SourceFrame,
    TensorSet,
    Transfer,
)

Json = Mapping[str, Any]
MAX_TEXT = 200
"""Maximum characters of a name, a path or a type."""
MAX_RANK = 1_000_000
MAX_ENTRIES = 20_000
_CACHED_TEXTS = 8192
"""Entries of all ranks have the same names, files, sizes and types, which are kept once."""
_MAX_DIMENSIONS, _MAX_TENSORS, _MAX_MEMBERS, _MAX_FRAMES = 32, 500_000, 1_000_000, 200
"""Bounds of one tensor, of all entries, of all groups, and of the stack of one entry."""
_TENSOR_FIELDS = ("input_sizes", "input_dtypes", "output_sizes", "output_dtypes")
_TRANSFER = re.compile(r"(send|recv) (\d{1,7})(?:->|<-)(\d{1,7})\Z")
_NAMES_OF_DUMPS = (b"pg_config", b"collective_seq_id", b"record_id", b"flight_recorder")
_PICKLE_START = re.compile(rb"\x80[\x02-\x05]")


def is_dump(head: bytes) -> bool:
    """Whether a file may be a dump by its first 64 KiB: a pickle or a JSON object with names that only dumps have."""
    is_known_form = _PICKLE_START.match(head) or head.lstrip().startswith(b"{")
    return bool(is_known_form) and any(name in head for name in _NAMES_OF_DUMPS)


def parse_dump(data: bytes, rank: int, source: str, written_ns: int = 0) -> FlightDump:
    """Returns the dump of a rank. Raises DumpError."""
    content = load_plain(data) if _PICKLE_START.match(data) else _load_json(data)
    if not isinstance(content, dict) or not isinstance(content.get("entries", []), list):
        raise DumpError("is no dump of torch's flight recorder: it has no list of entries")
    version = str(content.get("version"))[:MAX_TEXT]
    if not version.startswith("2."):
        raise DumpError(f"has format {wire.escape_line(version)}, and format 2 is known: use torch 2.4 or newer")
    _check_bounds(content.get("entries", []))
    frames: dict[int, SourceFrame] = {}
    entries = [_parse_entry(each, frames) for each in content.get("entries", [])]
    first = content["entries"][0] if entries else {}
    return FlightDump(rank, source, entries, _parse_members(content), _integer(first, "record_id") > 0, written_ns)


def _check_bounds(entries: list[Any]) -> None:
    """Raises DumpError for content that is larger than its file: a pickle may name one object any number of times."""
    if len(entries) > MAX_ENTRIES:
        raise DumpError(f"has over {MAX_ENTRIES} entries: set a smaller TORCH_FR_BUFFER_SIZE")
    lists = (entry.get(field) for entry in entries if isinstance(entry, dict) for field in _TENSOR_FIELDS)
    if sum(len(each) for each in lists if isinstance(each, list)) > _MAX_TENSORS:
        raise DumpError(f"has over {_MAX_TENSORS} tensors: set a smaller TORCH_FR_BUFFER_SIZE")


def _load_json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DumpError(f"is no valid JSON: copy the whole file ({str(error)[:MAX_TEXT]})") from error


def _parse_members(content: Json) -> dict[tuple[str, str], tuple[int, ...]]:
    """Returns the ranks of each group. gloo lists none."""
    groups = content.get("pg_config", {})
    if not isinstance(groups, dict):
        raise DumpError("has a pg_config that is no object: take the dump again")
    members = {}
    for group in groups.values():
        if not isinstance(group, dict):
            raise DumpError("has a process group that is no object: take the dump again")
        found = _parse_ranks(group.get("ranks"))
        if found:
            members[_text(group, "name"), _text(group, "desc")] = found
        if sum(map(len, members.values())) > _MAX_MEMBERS:
            raise DumpError(f"lists over {_MAX_MEMBERS} members of groups: take the dump again")
    return members


def _parse_ranks(ranks: Any) -> tuple[int, ...]:
    """Returns the ranks of a group, which torch writes as the text of a list."""
    if isinstance(ranks, str):
        numbers: Any = (int(each[0]) for each in islice(re.finditer(r"\d{1,7}", ranks), _MAX_MEMBERS))
    else:
        numbers = ranks[:_MAX_MEMBERS] if isinstance(ranks, list) else ()
    return tuple(sorted({each for each in numbers if type(each) is int and 0 <= each < MAX_RANK}))


def _parse_entry(entry: Any, frames: dict[int, SourceFrame]) -> FlightEntry:
    """Returns an entry. `frames`: frames by the identity of their objects, which entries of a pickle share."""
    if not isinstance(entry, dict):
        raise DumpError("has an entry that is no object: take the dump again")
    title = _text(entry, "profiling_name")
    backend, _, name = title.rpartition(":")
    group = entry.get("process_group")
    if not isinstance(group, list | tuple) or len(group) != 2:
        raise DumpError("has an entry without its process group: use torch 2.4 or newer")
    transfer = _parse_transfer(name)
    is_p2p = transfer is not None or entry.get("is_p2p") is True
    sequence = _integer(entry, "p2p_seq_id" if is_p2p else "collective_seq_id")
    return FlightEntry(
        backend or "nccl",
        _clean(group[0]),
        _clean(group[1]),
        name.partition(" ")[0] or "unnamed",
        sequence,
        _tensors(entry, "input_sizes", "input_dtypes"),
        _tensors(entry, "output_sizes", "output_dtypes"),
        _progress(entry),
        _integer(entry, "time_created_ns"),
        program_frame(_frames(entry.get("frames", []), frames)),
        transfer,
        is_p2p,
        _text(entry, "thread_id"),
    )


def _parse_transfer(name: str) -> Transfer | None:
    found = _TRANSFER.match(name)
    if found is None:
        return None
    own, other = int(found[2]), int(found[3])
    return Transfer(own, other, is_send=True) if found[1] == "send" else Transfer(other, own, is_send=False)


def _progress(entry: Json) -> Progress:
    state = entry.get("state")
    if state == "completed":
        return Progress.COMPLETED
    if entry.get("retired") is True:
        return Progress.ENDED
    return Progress.STARTED if state == "started" else Progress.SCHEDULED


def _tensors(entry: Json, sizes: str, types: str) -> TensorSet:
    shapes, names = entry.get(sizes) or [], entry.get(types) or []
    if not isinstance(shapes, list) or not isinstance(names, list):
        raise DumpError(f"has an entry whose {sizes} are no list of shapes: take the dump again")
    return _tensor_set(tuple(_shape(shape, sizes) for shape in shapes), tuple(_clean(name) for name in names))


@lru_cache(maxsize=_CACHED_TEXTS)
def _tensor_set(sizes: tuple[tuple[int, ...], ...], types: tuple[str, ...]) -> TensorSet:
    return TensorSet(sizes, types)


def _shape(shape: Any, field: str) -> tuple[int, ...]:
    if (
        not isinstance(shape, list | tuple)
        or len(shape) > _MAX_DIMENSIONS
        or not all(type(each) is int for each in shape)
    ):
        raise DumpError(f"has an entry whose {field} are no list of shapes: take the dump again")
    return tuple(shape)


def _frames(frames: Any, known: dict[int, SourceFrame]) -> Iterator[SourceFrame]:
    if not isinstance(frames, list):
        raise DumpError("has an entry whose frames are no list: take the dump again")
    for each in frames[:_MAX_FRAMES]:
        frame = known.get(id(each))
        if frame is None and isinstance(each, dict):
            frame = SourceFrame(_text(each, "name"), _text(each, "filename"), _integer(each, "line"))
            known[id(each)] = frame
        if frame:
            yield frame


def _integer(fields: Json, name: str) -> int:
    value = fields.get(name)
    return value if type(value) is int and value > 0 else 0


def _text(fields: Json, name: str) -> str:
    return _clean(fields.get(name))


def _clean(value: Any) -> str:
    return _clean_text(value) if isinstance(value, str) else ""


@lru_cache(maxsize=_CACHED_TEXTS)
def _clean_text(value: str) -> str:
    return wire.escape_line(value[-MAX_TEXT:]).replace("\n", " ")
