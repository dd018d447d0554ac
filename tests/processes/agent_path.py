"""Runs an agent with two ranks, and prints the path in the code from the end of a rank to its next start.

Arguments: a folder for its files, then the hand-overs of the path (see `code_path`). The fork server is another
process, so the path ends at the request to fork.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from code_path import CodePath, trace_path
from windlass.agent import agent
from windlass.agent.fork_server import frames
from windlass.agent.options import parse_options
from windlass.agent.ranks.rank_table import NodeRank

SCRIPT = """
import os, sys, time
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    sys.exit(3) if os.environ["RANK"] == "0" else time.sleep(60)
"""


class Messages:
    """The messages between the agent and its fork server; the path runs from a rank's end to the next start."""

    def __init__(self) -> None:
        self.path: CodePath | None = None
        self._has_failed = False
        self._receive, self._send = frames.receive, frames.send

    def receive(self, link: Any) -> Any:
        frame = self._receive(link)
        if frame is not None and frame.message.get("event") == "exit" and not self._has_failed:
            self._has_failed = True
            self.path.begin()
        return frame

    def send(self, link: Any, message: dict[str, Any], files: Any = ()) -> None:
        self._send(link, message, files)
        if message["request"] == "run" and self._has_failed:
            self.path.end()


def main(folder: str, *hand_overs: str) -> None:
    torch, script = Path(folder, "torch.py"), Path(folder, "train.py")
    torch.write_text("raise ImportError('the ranks need none')")  # an import of torch takes seconds
    script.write_text(SCRIPT)
    os.environ["PYTHONPATH"] = folder
    messages = Messages()
    frames.receive, frames.send = messages.receive, messages.send
    words = ["--nproc-per-node", "2", "--max-restarts", "1", str(script)]
    with trace_path(lambda value: isinstance(value, NodeRank), hand_overs) as messages.path:
        code = agent.run(parse_options(words, os.environ))
    path = messages.path
    found: dict[str, Any] = {"places": len(path.places), "modules": len(path.modules), "returns": path.returns}
    found |= {"names": len(path.names), "missed": sorted(path.missed), "text": repr(path), "code": code}
    found["functions"] = [place.function for place in path.places]
    sys.stdout.write(f"\n{json.dumps(found)}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
