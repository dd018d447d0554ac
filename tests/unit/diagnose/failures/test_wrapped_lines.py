"""Text copied from a terminal: lines cut at its width are read as one line, under the number of their start."""

import io
from functools import partial

import pytest
from diagnosis_accuracy import wrapped

from windlass.diagnose.diagnosis import EvidenceLine
from windlass.diagnose.failures.engine import diagnose
from windlass.diagnose.failures.evidence import Evidence, LogSource
from windlass.diagnose.failures.wrapped_lines import join_wrapped, wrap_width

LOG = """\
2026-11-27 10:00:00 INFO train.py starts on four ranks with the configuration /job/config.yaml and a batch of 32 samples
[rank1]: Traceback (most recent call last):
[rank1]:   File "/opt/env/lib/python3.11/site-packages/torch/nn/modules/module.py", line 1773, in _wrapped_call_impl
[rank1]:     return self._call_impl(*args, **kwargs)
[rank1]: torch.OutOfMemoryError: The first allocation of this step failed in this process. CUDA out of memory.
"""


@pytest.mark.parametrize("width", [72, 80])
def test_a_message_that_a_terminal_has_cut_is_the_verdict_of_its_first_line(width: int) -> None:
    pasted = wrapped(LOG * 2, width)
    start = 1 + next(n for n, line in enumerate(pasted.splitlines()) if "OutOfMemoryError" in line)
    verdict = diagnose(Evidence([LogSource("paste.txt", partial(io.BytesIO, pasted.encode()))])).verdict
    assert verdict is not None
    assert (verdict.cause, verdict.rank) == ("cuda-out-of-memory", 1)
    assert verdict.evidence[0] == EvidenceLine("paste.txt", start, LOG.splitlines()[-1])


def test_numbers_of_lines_stay_as_they_are() -> None:
    pasted = wrapped(LOG, 80).encode()
    joined = join_wrapped(pasted, wrap_width(pasted))
    assert joined.count(b"\n") == pasted.count(b"\n")
    assert [line for line in joined.decode().splitlines() if line] == LOG.splitlines()


def test_a_log_as_it_was_written_shows_no_width() -> None:
    assert wrap_width(LOG.encode()) == 0


def test_rows_of_a_table_are_not_joined() -> None:
    row = "| 0  NVIDIA H100 80GB HBM3          On  |   00000000:1B:00.0 Off |        ERR! |"
    table = "\n".join(["+" + "-" * 75 + "+", row, row.replace("0 ", "1 "), row.replace("ERR!", "   0")] * 4)
    assert wrap_width(table.encode()) == 0


def test_lines_of_one_program_and_one_length_are_not_joined() -> None:
    lines = [
        f"epoch {epoch:3} loss 0.12345 accuracy 0.98765 images per second 12345.6 eta 00:10:00" for epoch in range(20)
    ]
    assert wrap_width("\n".join(lines).encode()) == 0


def test_lines_with_times_of_their_own_are_not_joined() -> None:
    lines = [
        f"2026-11-27 10:00:{second:02} INFO the trainer has finished a step and goes on with the next one"
        for second in range(20)
    ]
    assert wrap_width("\n".join(lines).encode()) == 0


def test_bytes_that_are_no_text_stay_the_same() -> None:
    text = b"\xff" * 80 + b"\nabc\n" + b"x" * 80 + b"\ndef\n"
    assert join_wrapped(text, 80).replace(b"\n", b"") == text.replace(b"\n", b"")
