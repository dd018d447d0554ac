"""`windlass checkpoint`: lists, verifies, prunes and exports the checkpoints of a run."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from windlass.cli.errors import UsageError
from windlass.cli.exit_codes import ExitCode
from windlass.cli.target import state_folder, uses_color
from windlass.cli.target_options import NoColorOption, StateOption
from windlass.cli.terminal.formatting import format_time, pluralize
from windlass.cli.terminal.output import Column, Format, FormatOption, Listing, show
from windlass.cli.terminal.progress import ProgressBar
from windlass.cli.verb_group import verb_group
from windlass.core.model.resources import format_bytes
from windlass.train.checkpoint.store.folder_storage import FolderStorage
from windlass.train.checkpoint.store.inventory import (
    CheckpointEntry,
    CheckpointStatus,
    inspect_checkpoint,
    list_checkpoints,
    prunable_checkpoints,
)
from windlass.train.checkpoint.store.layout import MANIFEST, CheckpointKey, key_of
from windlass.train.checkpoint.store.lease import LeaseVerdict
from windlass.train.checkpoint.store.manifest import OBJECT, Manifest
from windlass.train.checkpoint.store.reader_lease import CheckpointRemover, hold_for_reading
from windlass.train.checkpoint.store.retention import Retention
from windlass.train.checkpoint.store.storage import StorageBackend, open_storage
from windlass.train.checkpoint.store.verification import FileProblem, verify_files

Row = dict[str, Any]
checkpoint = verb_group(
    "Checkpoints of a run: list them, verify every byte, remove old ones, export one as a single file."
)
PlaceArgument = Annotated[
    str,
    typer.Argument(
        metavar="PLACE|JOB", help="A folder, s3://bucket/run, gs://… or abfs://…; or a job of this machine."
    ),
]
StepArgument = Annotated[int | None, typer.Argument(metavar="[STEP]", help="The checkpoint of one step.")]

_READER_POLL_S = 1.0
_FIND_PLACE = "windlass logs {} --grep 'checkpoints in'"
_STYLES = {"complete": "green", "good": "green", "unfinished": "yellow", "damaged": "red"}
_SEEN = Listing(
    (
        Column("STEP", lambda row: _count(row["step"]), right=True),
        Column("STATE", lambda row: row["state"], style=lambda row: _STYLES[row["state"]]),
        Column("SIZE", lambda row: "-" if row["size"] is None else format_bytes(row["size"]), right=True),
        Column("SAVED", lambda row: format_time(row["saved_at"])),
        Column("SAMPLES", lambda row: _count(row["samples"]), right=True),
        Column("RANKS", lambda row: _count(row["ranks"]), right=True),
        Column("MESH", lambda row: row["mesh"]),
        Column("FILES", lambda row: _count(row["files"]), right=True, wide=True),
        Column("TENSORS", lambda row: _count(row["tensors"]), right=True, wide=True),
        Column("STALL", lambda row: _seconds(row["cost"], "stall"), right=True, wide=True),
        Column("TOOK", lambda row: _seconds(row["cost"], "duration"), right=True, wide=True),
        Column("FOLDER", lambda row: row["folder"], wide=True),
        Column("WHY", lambda row: row["why"]),
    ),
    key="folder",
    empty="there are no checkpoints here",
)
_CHECKED = Listing(
    (
        Column("STEP", lambda row: _count(row["step"]), right=True),
        Column("VERDICT", lambda row: row["verdict"], style=lambda row: _STYLES[row["verdict"]]),
        Column("FILE", lambda row: row["file"]),
        Column("WHY", lambda row: row["why"]),
    ),
    key="folder",
    empty="there are no checkpoints here",
)


@checkpoint.command("ls", short_help="List checkpoints, newest first, including unfinished ones")
def ls(
    place: PlaceArgument,
    output: FormatOption = Format.TABLE,
    state: StateOption = None,
    no_color: NoColorOption = False,
) -> int:
    """List checkpoints by their manifests, newest first. Other files are not read; `verify` reads them."""
    seen = list_checkpoints(resolve_place(place, state))
    costs = _costs(seen)
    rows = [{**_row(each), "cost": costs.get(each.step)} for each in seen]
    show(_SEEN, rows, output, paint=uses_color(no_color=no_color))
    return ExitCode.OK


@checkpoint.command("verify", short_help="Read every byte and compare it with the manifest")
def verify(
    place: PlaceArgument,
    step: StepArgument = None,
    output: FormatOption = Format.TABLE,
    state: StateOption = None,
    no_color: NoColorOption = False,
) -> int:
    """Read every file of one or all checkpoints and report changed ones. Exits with 1 if one is damaged."""
    storage = resolve_place(place, state)
    seen = _select(storage, step)
    total = sum(each.manifest.size for each in seen if each.manifest)
    rows: list[Row] = []
    with ProgressBar("verifying", no_color=no_color) as bar:
        for number, each in enumerate(seen):
            with hold_for_reading(storage, each.folder, _warn) as is_there:
                if is_there and _is_there(storage, each):
                    rows += _verify_one(storage, each, _byte_counter(bar, total, number, len(seen)))
    show(_CHECKED, rows, output, paint=uses_color(no_color=no_color))
    return ExitCode.FAILED if any(row["verdict"] == "damaged" for row in rows) or not rows else ExitCode.OK


@checkpoint.command("prune", short_help="Remove all but the newest")
def prune(
    place: PlaceArgument,
    keep: Annotated[int, typer.Option("--keep", min=1, help="Number of newest checkpoints to keep.")],
    every: Annotated[
        int | None,
        typer.Option("--keep-every", min=1, metavar="STEPS", help="Also keep one checkpoint every so many steps."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would be removed.")] = False,
    state: StateOption = None,
    no_color: NoColorOption = False,
) -> int:
    """Remove old checkpoints, oldest first. Unfinished ones stay: their save may still be running.

    A checkpoint that another process reads stays. Where it is not known whether the process still lives, this waits for
    at most a minute.
    """
    storage = resolve_place(place, state)
    keys = prunable_checkpoints(storage, Retention(keep, every))
    remover = CheckpointRemover(storage)
    with ProgressBar("removing", no_color=no_color) as bar:
        for number, key in enumerate(keys):
            is_removed = dry_run or _remove(remover, key)
            bar(number / len(keys), number + 1, len(keys))
            if is_removed:
                print(f"{'would remove' if dry_run else 'removed'} step {key.step}")
    if not keys:
        print("there is nothing to remove")
    return ExitCode.OK


@checkpoint.command("export", short_help="Write a checkpoint as one file, for other programs")
def export(
    place: PlaceArgument,
    to: Annotated[Path, typer.Option("--to", metavar="FILE", help="FILE.safetensors, FILE.pt or FILE.pth")],
    step: StepArgument = None,
    only: Annotated[
        str, typer.Option("--only", metavar="NAME", help="Only values below this name (model), with the name removed.")
    ] = "",
    state: StateOption = None,
    no_color: NoColorOption = False,
) -> int:
    """Write the full tensors of a checkpoint, the newest unless a step is given, into one file, for any mesh.

    The checkpoint is verified first. A .pt file is for `torch.load` and includes values that are not tensors. The whole
    checkpoint has to fit into memory. Other values than tensors are unpickled: export only checkpoints that you trust.
    """
    storage = resolve_place(place, state)
    from windlass.train.checkpoint import export as exporting  # noqa: PLC0415 - loads torch

    seen, manifest = _newest(storage, step)
    facts, left_out = exporting.select_tensors(manifest, only, to.suffix)
    with ProgressBar("exporting", no_color=no_color) as bar:
        with hold_for_reading(storage, seen.folder, _warn) as is_there:
            if not is_there or not _is_there(storage, seen):
                raise UsageError(f"{place}: {seen.folder} was removed meanwhile\nexport another step, or try again")
            if damaged := _damage(storage, seen, _byte_counter(bar, manifest.size, 0, 3)):
                raise UsageError(
                    f"{place}: {seen.folder}: {damaged[0]}\nexport another step: windlass checkpoint ls {place}"
                )
            bar(1 / 3, 1, 3)
            found = exporting.read_state(storage, seen.folder, facts)
        bar(2 / 3, 2, 3)
        made = exporting.write_export(found, manifest, to, only, left_out)
    others = f", {pluralize(made.others, 'other value')}" if made.others else ""
    lacks = (
        f"; {pluralize(made.left_out, 'value')} that are not tensors are only written to a .pt file"
        if made.left_out
        else ""
    )
    print(f"{to}: step {manifest.step}, {pluralize(made.tensors, 'tensor')}{others}, {format_bytes(made.size)}{lacks}")
    return ExitCode.OK


def _remove(remover: CheckpointRemover, key: CheckpointKey) -> bool:
    """Removes a checkpoint unless a process reads it; returns whether it is removed."""
    while (verdict := remover.remove(key.folder)) is LeaseVerdict.UNDECIDED:
        time.sleep(_READER_POLL_S)
    if verdict is LeaseVerdict.HELD:
        print(f"step {key.step} stays: it is read by {remover.reader}", file=sys.stderr)
    return verdict is LeaseVerdict.FREE


def _is_there(place: StorageBackend, seen: CheckpointEntry) -> bool:
    """Tells whether a checkpoint has not been removed since it was listed."""
    key = key_of(seen.folder)
    return key is not None and inspect_checkpoint(place, key).state is not CheckpointStatus.UNFINISHED


def _warn(text: str) -> None:
    print(f"windlass: {text}", file=sys.stderr)


def _select(place: StorageBackend, step: int | None) -> list[CheckpointEntry]:
    """Returns the finished checkpoints, or the one of a step. Raises UsageError if there is none of that step."""
    seen = [each for each in list_checkpoints(place) if each.state is not CheckpointStatus.UNFINISHED]
    chosen = [each for each in seen if step in (None, each.step)]
    if not chosen and step is not None:
        steps = ", ".join(str(each.step) for each in seen[:8]) or "none"
        raise UsageError(f"{place.location} has no checkpoint of step {step}; it has {steps}")
    return chosen


def _newest(place: StorageBackend, step: int | None) -> tuple[CheckpointEntry, Manifest]:
    for seen in _select(place, step):
        if seen.manifest is not None and seen.state is CheckpointStatus.COMPLETE:
            return seen, seen.manifest
    which = "complete checkpoint" if step is None else f"complete checkpoint of step {step}"
    raise UsageError(f"{place.location} has no {which}\nsee: windlass checkpoint verify {place.location}")


def _verify_one(place: StorageBackend, seen: CheckpointEntry, on_read: Callable[[int], None]) -> list[Row]:
    about = {"step": seen.step, "folder": seen.folder}
    if damage := _damage(place, seen, on_read):
        return [{**about, "verdict": "damaged", "file": each.file, "why": each.why} for each in damage]
    return [{**about, "verdict": "good", "file": "", "why": ""}]


def _damage(place: StorageBackend, seen: CheckpointEntry, on_read: Callable[[int], None]) -> list[FileProblem]:
    of_manifest = [each for each in seen.problems if each.file == MANIFEST]
    if seen.manifest is None or of_manifest:
        return of_manifest
    return verify_files(place, seen.folder, seen.manifest, sorted(seen.manifest.files), on_read)


def _byte_counter(bar: ProgressBar, total: int, ended: int, parts: int) -> Callable[[int], None]:
    """Returns a callback for the number of bytes read, which updates the bar; safe for several threads."""
    lock, read = threading.Lock(), 0

    def on_read(count: int) -> None:
        nonlocal read
        with lock:
            read += count
            bar(min(1.0, ended / parts + read / max(1, total) / parts), ended, parts)

    return on_read


def _row(seen: CheckpointEntry) -> Row:
    manifest = seen.manifest
    return {
        "step": seen.step,
        "state": str(seen.state),
        "folder": seen.folder,
        "size": manifest and manifest.size,
        "saved_at": manifest and manifest.saved_at,
        "samples": manifest and manifest.samples,
        "ranks": manifest and manifest.world,
        "mesh": manifest.mesh if manifest else "",
        "files": manifest and len(manifest.files),
        "tensors": manifest and sum(fact.dtype != OBJECT for fact in manifest.tensors.values()),
        "facts": dict(manifest.facts) if manifest else {},
        "why": "; ".join(map(str, seen.problems)),
    }


def _costs(seen: list[CheckpointEntry]) -> dict[int | None, Row]:
    """Returns the cost of each save by step; a checkpoint records the cost of the save before it."""
    facts = [each.manifest.facts.get("cost") for each in seen if each.manifest]
    return {cost["step"]: dict(cost) for cost in facts if isinstance(cost, dict) and "step" in cost}


def _seconds(cost: Row | None, what: str) -> str:
    """Returns "5.1 ms" or "2.4 s"."""
    seconds = cost.get(what) if cost else None
    if not isinstance(seconds, int | float):
        return "-"
    return f"{seconds * 1000:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def _count(value: int | None) -> str:
    return "-" if value is None else str(value)


def resolve_place(text: str, state: Path | None) -> StorageBackend:
    """Returns an address or an existing folder; else the place in which the job of that name keeps its checkpoints.

    Raises UsageError if it is none of them, and StorageError for an invalid address.
    """
    place, no_job = open_storage(text), ""
    if not isinstance(place, FolderStorage) or place.path.is_dir():
        return place
    if text == place.path.name:
        from windlass.backends.local.name_resolution import NameResolutionError  # noqa: PLC0415 - loads the database

        try:
            return _place_of_job(text, state)
        except NameResolutionError as error:
            no_job = f", and {error}"
    if place.path.exists():  # not a folder: listing it raises a precise error
        return place
    raise UsageError(
        f"there is no folder {place.location}{no_job}\n"
        f"name the folder or the address in which the run keeps them; its log names it: {_FIND_PLACE.format('JOB')}"
    )


def _place_of_job(name: str, state: Path | None) -> StorageBackend:
    """Returns the place of a job's checkpoints. Raises NameResolutionError, and UsageError for a job without any."""
    from windlass.backends.local.checkpoints import checkpoint_places  # noqa: PLC0415 - loads the database
    from windlass.backends.local.paths import StatePaths  # noqa: PLC0415 - as above

    kept, *others = checkpoint_places(StatePaths(state_folder(state)), name)
    if others:
        raise UsageError(f"{name} is an array of {len(others) + 1} jobs\nname one of them, such as {kept.job_id}")
    place = open_storage(kept.place)
    if isinstance(place, FolderStorage) and not place.path.exists():
        raise UsageError(
            f"job {kept.job_id} has no checkpoints in {place.location}\n"
            f"it has saved none yet, or its script names another place: {_FIND_PLACE.format(kept.job_id)}"
        )
    print(f"checkpoints of job {kept.job_id}, in {place.location}", file=sys.stderr)
    return place
