"""Program of a notebook's gang: restores the workspace, serves JupyterLab, and saves the workspace at the end.

`python -m windlass.jupyter.server --folder DIR --idle SECONDS`. It ends with 0 once the notebook was idle for so long,
and after Shut Down in JupyterLab; after SIGTERM with 143.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import socket
import sys
import time
from pathlib import Path

from windlass import wire
from windlass.jupyter.first_notebook import NAME, write_first_notebook
from windlass.jupyter.folder import (
    NotebookFolder,
    ServerAddress,
    new_token,
    read_address,
    read_token,
    write_address,
)
from windlass.jupyter.workspace_checkpoint import restore_workspace, save_workspace

_TERMINATED = 128 + signal.SIGTERM


def main() -> int:
    """Serves one notebook until it is idle or stopped. Returns the exit code."""
    options = _options()
    folder = NotebookFolder(options.folder)
    # 1. Restore the workspace, if it has no files.
    workspace = options.workspace or folder.workspace
    workspace.mkdir(parents=True, exist_ok=True)
    if not _restore(folder, workspace):
        return 1
    if options.workspace is None:
        write_first_notebook(workspace)
    # 2. Serve JupyterLab until the notebook is idle, or stopped.
    is_terminated = _serve(folder, workspace, options)
    # 3. Save the workspace.
    _save(folder, workspace)
    return _TERMINATED if is_terminated else 0


def _serve(folder: NotebookFolder, workspace: Path, options: argparse.Namespace) -> bool:
    """Runs JupyterLab. Returns whether SIGTERM has ended it."""
    token = _fresh_token(folder, options.token)
    os.environ["JUPYTER_RUNTIME_DIR"] = str(folder.runtime)
    os.chdir(workspace)
    port = options.port or _free_port(folder)
    from windlass.jupyter.lab import Lab  # noqa: PLC0415 - loads JupyterLab, after its variables are set

    first = NAME if (workspace / NAME).is_file() else ""
    lab = Lab(
        workspace,
        port,
        token,
        skipped=_skipped(folder),
        idle_limit_s=options.idle,
        first_page=first,
        say=_say,
    )
    attempt = int(os.environ.get(wire.GENERATION, "1"))
    write_address(folder, ServerAddress(os.environ.get(wire.JOB_ID, ""), attempt, port))
    try:
        return lab.run()
    finally:
        write_address(folder, ServerAddress("", attempt, port))


def _fresh_token(folder: NotebookFolder, given: Path | None) -> str:
    """Returns the token of this start, a new one unless a file is given.

    Between two starts another user of the machine can listen on the port and receive token and cookie of an open page.
    The cookies of the former start end with its runtime folder, which has their key.
    """
    shutil.rmtree(folder.runtime, ignore_errors=True)
    return read_token(given) if given else new_token(folder)


def _restore(folder: NotebookFolder, workspace: Path) -> bool:
    """Restores the workspace. Returns False if that failed: a start without its files would replace the checkpoints."""
    try:
        restored = restore_workspace(workspace, folder.checkpoints)
    except OSError as error:
        _say(f"the workspace was not restored: {error}; correct that and start the notebook again")
        return False
    if restored:
        _say(f"the workspace was restored from {restored}")
    return True


def _save(folder: NotebookFolder, workspace: Path) -> None:
    try:
        saved = save_workspace(workspace, folder.checkpoints, time.time_ns() // 1_000_000, _skipped(folder))
    except OSError as error:
        _say(f"the workspace was not saved: {error}; its files are in {workspace}")
        return
    _say(f"the workspace was saved: {saved.files} files in {saved.path}")
    if saved.left_out:
        why = "because they are links, larger than 256 MiB or not readable"
        _say(f"not in the checkpoint, {why}: {', '.join(saved.left_out[:20])}")


def _skipped(folder: NotebookFolder) -> list[Path]:
    """The folders of the notebook and of the daemon, which may lie in a workspace that the user names."""
    state = os.environ.get("WINDLASS_STATE")
    return [folder.path, *([Path(state)] if state else [])]


def _free_port(folder: NotebookFolder) -> int:
    """Returns the port of the last start if it is free, else any free one."""
    last = read_address(folder)
    for port in (last.port, 0) if last else (0,):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise OSError("no free port on 127.0.0.1")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="windlass.jupyter.server")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--workspace", type=Path)
    parser.add_argument("--token", type=Path, help="file with the token; default: a new one")
    parser.add_argument("--idle", type=float, default=0.0, help="seconds; 0: never")
    parser.add_argument("--port", type=int, default=0, help="0: that of the last start, or any free one")
    return parser.parse_args()


def _say(text: str) -> None:
    print(f"windlass: {text}", flush=True)  # noqa: T201 - the output of a rank


if __name__ == "__main__":
    sys.exit(main())
