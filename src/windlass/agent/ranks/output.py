"""Passes the output of this node's ranks to the console, to files of torchrun's layout, or both.

Also records the time of the last output, for `hang_detection`.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from windlass.agent.console import Console
from windlass.agent.event_loop import EventLoop
from windlass.agent.options import ERR, OUT, Options
from windlass.agent.parent_settings import ParentSettings
from windlass.wire import escape_line

_CHUNK = 65536
_RETRY_S = 0.05
_LINE_TIMEOUT_S = 0.02
"""Wait for the rest of a line before its beginning is shown."""
_MAX_STACK_LINES = 40
"""Maximum lines of one rank's stacks on the console; the log file has all of them."""
_NAMES = {OUT: "stdout.log", ERR: "stderr.log"}
_SUFFIXES = {OUT: ".out", ERR: ".err"}


class RankFiles(NamedTuple):
    """Descriptors that a rank starts with, to be closed afterwards, and the path of its error file."""

    out: int
    err: int
    stacks: int
    error_file: str

    def close(self) -> None:
        """Closes the agent's descriptors; the rank has its own."""
        for descriptor in (self.out, self.err, self.stacks):
            os.close(descriptor)


class _Stream:
    """One stream of one rank that passes through the agent. `copy`: descriptor of a file for it too."""

    def __init__(self, source: int, console: int, prefix: bytes, copy: int | None) -> None:
        self.source, self.console, self.prefix, self.copy = source, console, prefix, copy
        self.rest = b""


class RankOutput:
    """Streams and files of all ranks of this node, generation after generation."""

    def __init__(
        self, loop: EventLoop, options: Options, console: Console, folder: Path, settings: ParentSettings
    ) -> None:
        self._loop, self._options, self._console = loop, options, console
        self._log_files = Console()
        """Writes copies of streams to files."""
        self._parent_streams = settings.streams
        self._streams: dict[int, _Stream] = {}
        self._files: list[Path] = []
        """Files that ranks write directly."""
        self._file_times = _FileTimes()
        self.last = time.monotonic()
        self.folder = _run_folder(options) or Path(settings.records or folder)
        """Folder of this run for everything that is kept."""

    def open(self, local_rank: int, rank: int, generation: int) -> RankFiles:
        """Opens everything that a rank writes to. Raises OSError."""
        folder = self.attempt(generation) / str(local_rank)
        folder.mkdir(parents=True, exist_ok=True)
        out, err = (self._open_stream(which, local_rank, rank, folder) for which in (OUT, ERR))
        error_file = folder / "error.json"
        error_file.unlink(missing_ok=True)  # written by a rank under an earlier controller
        stacks = os.open(folder / "stacks.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        return RankFiles(out, err, stacks, str(error_file))

    def attempt(self, generation: int) -> Path:
        """Folder of one generation, with torchrun's name."""
        return self.folder / f"attempt_{generation - 1}"

    def stacks(self, generation: int, local_rank: int | None) -> str:
        """The newest stacks of one rank of this node; "" if there are none."""
        if local_rank is None:
            return ""
        with contextlib.suppress(OSError):
            lines = (self.attempt(generation) / str(local_rank) / "stacks.txt").read_text(errors="replace").splitlines()
            return "\n".join(lines[:_MAX_STACK_LINES])
        return ""

    def silent(self) -> float:
        """Seconds since any rank wrote anything."""
        return min(time.monotonic() - self.last, time.time() - self._file_times.newest(self._files))

    def drain(self) -> None:
        """Passes on the rest of the output of ended ranks from their pipes."""
        for stream in list(self._streams.values()):
            while self._read(stream):
                pass
            if stream.source in self._streams:  # a process that has left the rank's group holds it open
                self._finish(stream)
        self._files.clear()

    def close(self) -> None:
        """Waits for writes to log files, for a few seconds at most."""
        self._log_files.close()

    def _open_stream(self, which: int, local_rank: int, rank: int, folder: Path) -> int:
        if local_rank < len(self._parent_streams):
            stream = self._parent_streams[local_rank]
            self._files.append(Path(stream.log + _SUFFIXES[which]))
            return os.dup(stream.out if which == OUT else stream.err)
        copied, redirected = (
            bool(option.of(local_rank) & which) for option in (self._options.tee, self._options.redirects)
        )
        shown = self._options.shown is None or local_rank in self._options.shown
        if copied or redirected:
            file = _open(folder / _NAMES[which])
            if (redirected and not copied) or not shown:
                self._files.append(folder / _NAMES[which])
                return file
            return self._open_pipe(which, self._prefix(local_rank, rank), file)
        if not shown:
            return os.open(os.devnull, os.O_WRONLY)
        return os.dup(which) if os.isatty(which) else self._open_pipe(which, b"", None)

    def _prefix(self, local_rank: int, rank: int) -> bytes:
        template = os.environ.get("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE")
        if template is None:
            return f"[{self._options.role}{local_rank}]:".encode()
        names = {"role_name": self._options.role, "rank": str(rank), "local_rank": str(local_rank)}
        for name, value in names.items():
            template = template.replace(f"${{{name}}}", value)
        return template.encode()

    def _open_pipe(self, console: int, prefix: bytes, copy: int | None) -> int:
        source, sink = os.pipe()
        os.set_blocking(source, False)
        stream = _Stream(source, console, prefix, copy)
        self._streams[source] = stream
        self._loop.watch(source, lambda: self._pass_on(stream))
        return sink

    def _pass_on(self, stream: _Stream) -> None:
        if self._console.is_full or self._log_files.is_full:
            self._loop.forget(stream.source)
            self._loop.after(_RETRY_S, lambda: self._resume(stream))
        else:
            self._read(stream)

    def _resume(self, stream: _Stream) -> None:
        if self._streams.get(stream.source) is stream:
            self._loop.watch(stream.source, lambda: self._pass_on(stream))

    def _read(self, stream: _Stream) -> bool:
        """Reads once. Returns whether there may be more."""
        try:
            data = os.read(stream.source, _CHUNK)
        except BlockingIOError:
            return False
        self.last = time.monotonic()
        if data:
            self._show(stream, data)
        else:
            self._finish(stream)
        return bool(data)

    def _show(self, stream: _Stream, text: bytes) -> None:
        if stream.copy is not None:
            self._log_files.write(stream.copy, text)
        lines, newline, stream.rest = (stream.rest + text).rpartition(b"\n")
        self._console.write(stream.console, _add_prefix(stream.prefix, lines + newline))
        if stream.rest and not stream.prefix:  # Python writes a line and its end apart; a bar's line has no end
            self._loop.after(_LINE_TIMEOUT_S, lambda: self._show_rest(stream))

    def _show_rest(self, stream: _Stream) -> None:
        text, stream.rest = stream.rest, b""
        self._console.write(stream.console, text)

    def _finish(self, stream: _Stream) -> None:
        if stream.rest and stream.prefix:
            stream.rest = _add_prefix(stream.prefix, stream.rest + b"\n")
        self._show_rest(stream)
        self._loop.forget(stream.source)
        os.close(stream.source)
        del self._streams[stream.source]
        if stream.copy is not None:
            self._log_files.close_descriptor(stream.copy)


def _add_prefix(prefix: bytes, text: bytes) -> bytes:
    """Adds the prefix to each line, whose controls are escaped: a line can neither hide nor forge a prefix."""
    if not prefix or not text:
        return text
    lines = text[:-1].decode(errors="surrogateescape").split("\n")
    return b"".join(prefix + escape_line(line).encode(errors="surrogateescape") + b"\n" for line in lines)


def _open(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)


class _FileTimes:
    """Reads modification times in a thread, because the storage of log files may not answer."""

    def __init__(self) -> None:
        self._newest = 0.0
        self._reading: threading.Thread | None = None

    def newest(self, files: Sequence[Path]) -> float:
        """The newest time as of the call before, in seconds since the epoch; 0 if there is none."""
        if files and (self._reading is None or not self._reading.is_alive()):
            self._reading = threading.Thread(target=self._read, args=(tuple(files),), name="log-times", daemon=True)
            self._reading.start()
        return self._newest

    def _read(self, files: Sequence[Path]) -> None:
        self._newest = max(self._newest, *map(_modification_time, files))


def _modification_time(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _run_folder(options: Options) -> Path | None:
    """The folder that torchrun would make: below --log-dir, or a temporary one where streams go to unnamed files."""
    kept = options.redirects.everyone or options.redirects.by_rank or options.tee.everyone or options.tee.by_rank
    if options.log_dir == os.devnull or not (options.log_dir or kept):
        return None
    base = options.log_dir or tempfile.mkdtemp(prefix="torchelastic_")
    Path(base).mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix=f"{options.run_id.replace('/', '_')}_", dir=base))
