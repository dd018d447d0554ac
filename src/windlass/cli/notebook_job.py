"""A notebook on this machine: submits its job to the daemon, and waits until JupyterLab listens."""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from windlass.cli import job_messages
from windlass.cli.current_user import current_user
from windlass.cli.errors import UsageError
from windlass.cli.job_submission import current_folder, for_this_machine, submission_context
from windlass.cli.notebook_page import NotebookPage, refuse_ended
from windlass.cli.terminal.screen import Screen
from windlass.jobs.description.options import RunOptions, from_options
from windlass.jobs.description.submission import Submission
from windlass.jupyter.folder import MODULE, NotebookFolder, read_address, read_token
from windlass.server.discovery import find_daemon

Json = dict[str, Any]
_POLL_S = 0.2
_REDIRECT = "open.html"


class LocalNotebook:
    """One notebook of a daemon, by its name. `idle_ms`: time without activity after which it ends; 0: never."""

    def __init__(self, state: Path, options: RunOptions, idle_ms: int, screen: Screen) -> None:
        self._state, self._options, self._idle_ms, self._screen = state, options, idle_ms, screen
        self._name = options.name or ""
        self._folder = NotebookFolder(state / "notebooks" / self._name)
        self._daemon = find_daemon(state)

    def start(self) -> NotebookPage:
        """Starts the notebook, or finds the one that runs; returns its page once it listens. Raises ApiError."""
        # 1. A notebook of this name that has not ended goes on.
        job_id = self._running()
        # 2. Without one, submit the job. Each start of its server makes a new token.
        if not job_id:
            submission = notebook_submission(self._options, self._folder, self._state, self._idle_ms)
            self._folder.prepare()
            job_id = self._daemon.submit(for_this_machine([submission]), **submission_context())[0]
        # 3. Wait for its nodes and for the server.
        try:
            port = self._await_port(job_id)
        except KeyboardInterrupt:
            self._screen.say(f"{job_id} goes on; end it with: windlass cancel {job_id}")
            raise
        self._screen.say(f"{job_id} runs; end it with: windlass cancel {job_id}")
        return NotebookPage(port, read_token(self._folder.token), self._folder.path / _REDIRECT)

    def _running(self) -> str:
        """Returns the id of the job that runs or waits, "" without one. Raises UsageError if it is no notebook."""
        for line in self._daemon.jobs(name=self._name):
            role, *_ = (self._daemon.job(line["id"]).get("spec") or {}).get("roles") or [{}]
            if MODULE in (role.get("command") or ()):
                return str(line["id"])
            raise UsageError(f"{line['id']} is no notebook and has its name\nchoose another one: --name NAME")
        return ""

    def _await_port(self, job_id: str) -> int:
        """Waits until the server of a job listens; returns its port. Raises ApiError if the job ends first."""
        while True:
            job = self._daemon.job(job_id)
            address = read_address(self._folder)
            refuse_ended(job)
            if job["phase"] == "Running" and address and (address.job, address.attempt) == (job_id, job["attempts"]):
                return address.port
            self._screen.state(_state_line(job))
            time.sleep(_POLL_S)


def notebook_submission(options: RunOptions, folder: NotebookFolder, state: Path, idle_ms: int) -> Submission:
    """Returns the job: one rank, whatever its GPUs. Raises UsageError without JupyterLab, and InputError."""
    if not all(map(importlib.util.find_spec, ("jupyterlab", "ipykernel"))):
        raise UsageError("a notebook needs JupyterLab, which is missing\npip install 'windlass-train[notebook]'")
    given = str(Path(current_folder(), Path(options.workdir).expanduser())) if options.workdir else None
    if given and _is_own_folder(Path(given), folder, state):
        raise UsageError(f"--workdir {given} holds the state of the daemon\nname a folder of your files")
    workspace = ("--workspace", given) if given else ()
    command = (sys.executable, "-m", MODULE, "--folder", str(folder.path), "--idle", f"{idle_ms / 1000:g}", *workspace)
    env = (*options.env, f"WINDLASS_STATE={state}")
    described = replace(options, env=env, procs=1, workdir=given)
    return from_options(described, command, cwd=os.sep, user=current_user())


def _is_own_folder(given: Path, folder: NotebookFolder, state: Path) -> bool:
    """Whether a folder is the state folder, or one on the way to the notebook's folder in it."""
    resolved = given.resolve()
    return resolved.is_relative_to(state.resolve()) and folder.path.resolve().is_relative_to(resolved)


def _state_line(job: Json) -> str:
    if job["phase"] == "Running":
        return f"job {job['id']}: JupyterLab starts"
    return job_messages.waiting_line(job)
