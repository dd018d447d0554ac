from __future__ import annotations

from pathlib import Path

import pytest

import windlass
from windlass.backends.local.logs import LogFile, LogLine
from windlass.client.connection import TargetConnection
from windlass.client.job_output import JobOutput, read_output


class SlowPod:
    """Output of a pod, of which a slow API server sends only the first line."""

    unread = ""

    def poll(self) -> list[LogLine]:
        return []

    def finish(self) -> list[LogLine]:
        self.unread = "job-0: no answer within 10 s"
        return [LogLine(LogFile("job", 1, 0, "out", Path()), 1, "epoch 1")]

    def close(self) -> None:
        pass


def test_output_that_cannot_be_read_to_its_end_is_an_error_after_its_last_line(tmp_path: Path):
    connection = TargetConnection("local", "", tmp_path)
    output = JobOutput("job", [SlowPod()], follow=False)
    assert [line.text for line in read_output(connection, output)] == ["epoch 1"]
    assert not output.has_ended
    expected = "the output of job was not read to its end: job-0: no answer within 10 s\nread it again"
    with pytest.raises(windlass.TargetUnreachableError, match=expected):
        read_output(connection, output)
    connection.close()
