"""`windlass doctor` shows on a terminal what it works on, after two seconds; elsewhere it shows nothing."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from terminal import terminal, windlass

OUT_OF_MEMORY = "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.\n"


def test_a_terminal_shows_the_bytes_that_are_read(state: Path, tmp_path: Path):
    pipe = tmp_path / "train.log"
    os.mkfifo(pipe)
    with terminal(state, "doctor", str(pipe)) as shown:
        with pipe.open("w") as log:
            shown.expect("reading logs .* read")
            log.write(OUT_OF_MEMORY)
        assert shown.wait() == 1
    assert "Rank 3 ran out of GPU memory" in shown.seen


def test_a_pipe_gets_no_progress(state: Path, tmp_path: Path):
    pipe = tmp_path / "train.log"
    os.mkfifo(pipe)
    late = threading.Timer(2.5, lambda: pipe.write_text(OUT_OF_MEMORY))
    late.start()
    ran = windlass(state, "doctor", str(pipe))
    late.join()
    assert ran.returncode == 1
    assert "reading logs" not in ran.stderr
