"""The output of ranks: written in threads of its own, so neither a slow reader nor a slow disk stops the agent."""

from __future__ import annotations

import os
import threading
import time

import pytest

from windlass.agent.console import Console
from windlass.agent.event_loop import EventLoop
from windlass.agent.options import Options, parse_options
from windlass.agent.parent_settings import ParentSettings
from windlass.agent.ranks import output
from windlass.agent.ranks.output import RankOutput


class StalledFile:
    """A descriptor whose writes block until `resume`, or for five seconds."""

    def __init__(self):
        self._source, self.sink = os.pipe()
        os.set_blocking(self.sink, False)
        try:
            while True:
                os.write(self.sink, bytes(65536))
        except BlockingIOError:
            os.set_blocking(self.sink, True)
        self._timer = threading.Timer(5.0, self.resume)
        self._timer.start()
        self.is_stalled = True

    def resume(self):
        self.is_stalled = False
        os.set_blocking(self._source, False)
        try:
            while os.read(self._source, 1 << 20):
                pass
        except BlockingIOError:
            pass

    def close(self):
        self._timer.cancel()
        os.close(self._source)


@pytest.fixture
def stalled():
    file = StalledFile()
    yield file
    file.close()


class Screen:
    """A console that keeps what it is given."""

    is_full = False

    def __init__(self):
        self.written = b""

    def write(self, _descriptor, data):
        self.written += data


def test_an_agent_goes_on_while_the_disk_of_its_log_files_stalls(tmp_path, monkeypatch, stalled):
    loop, screen = EventLoop(), Screen()
    options = parse_options(["--tee", "1", "--log-dir", str(tmp_path), "train.py"], {})
    monkeypatch.setattr(output, "_open", lambda _path: os.dup(stalled.sink))
    ranks = RankOutput(loop, options, screen, tmp_path, ParentSettings())
    files = ranks.open(0, 0, 1)
    os.write(files.out, b"loss 2.5\n")
    files.close()
    loop.after(0.2, loop.end)
    loop.run()
    assert stalled.is_stalled
    assert screen.written == b"[default0]:loss 2.5\n"
    stalled.resume()
    ranks.close()


def test_a_log_file_has_everything_when_the_output_is_closed(tmp_path):
    loop, screen = EventLoop(), Screen()
    options = parse_options(["--tee", "3", "--log-dir", str(tmp_path), "train.py"], {})
    ranks = RankOutput(loop, options, screen, tmp_path, ParentSettings())
    files = ranks.open(0, 0, 1)
    os.write(files.out, b"loss 2.5\n")
    os.write(files.err, b"warning")
    files.close()
    ranks.drain()
    ranks.close()
    folder = ranks.attempt(1) / "0"
    assert (folder / "stdout.log").read_bytes() == b"loss 2.5\n"
    assert (folder / "stderr.log").read_bytes() == b"warning"


def test_an_agent_goes_on_while_the_times_of_log_files_cannot_be_read(tmp_path, monkeypatch):
    answers, really = threading.Event(), output._modification_time
    monkeypatch.setattr(output, "_modification_time", lambda path: answers.wait(5) and really(path))
    ranks = RankOutput(EventLoop(), Options(("train.py",), "script", "1"), Screen(), tmp_path, ParentSettings())
    ranks.last -= 1000
    (tmp_path / "stdout.log").write_text("loss 2.5")
    ranks._files.append(tmp_path / "stdout.log")
    assert ranks.silent() >= 1000
    assert not answers.is_set()
    answers.set()
    ranks._file_times._reading.join()
    assert ranks.silent() < 1000
    ranks.close()


def test_the_size_of_the_unwritten_output_counts_each_write_once(stalled):
    """An update that two threads make at once got lost; after some of them no output was read any more."""

    class Late(bytes):
        """Bytes whose length is asked for while the write before them ends."""

        def __len__(self):
            if stalled.is_stalled:
                stalled.resume()
                until = time.monotonic() + 5
                while console._size and time.monotonic() < until:
                    time.sleep(0.001)
            return super().__len__()

    console = Console()
    console.write(stalled.sink, b"first")
    console.write(stalled.sink, Late(b"second"))
    console.close()
    assert console._size == 0
