"""Prefixes of launchers, log collectors and loggers tell time, rank and node of a line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.diagnose.failures.line_prefix import LineOrigin, read_prefixes

AT = 1_772_450_405_000  # 2026-03-02 11:20:05 UTC
IN_1970 = 5_224_805_000  # the same day and time of a year that the line does not tell

LINES = {
    "[rank3]: ValueError: x": LineOrigin("ValueError: x", rank=3),
    "[default0]:ValueError: x": LineOrigin("ValueError: x", rank=0),
    "[trainer2]:ValueError: x": LineOrigin("ValueError: x", rank=2),
    "[r12 n1] ValueError: x": LineOrigin("ValueError: x", rank=12, node="n1"),
    "[pod/train-worker-3/pytorch] ValueError: x": LineOrigin("ValueError: x"),
    "2026-03-02T11:20:05.000123456Z ValueError: x": LineOrigin("ValueError: x", time=AT),
    "2026-03-02T13:20:05+02:00 ValueError: x": LineOrigin("ValueError: x", time=AT),
    "[2026-03-02 11:20:05,250] ValueError: x": LineOrigin("ValueError: x", time=AT + 250),
    "7: ValueError: x": LineOrigin("ValueError: x", rank=7),
    "[1,5]<stderr>:ValueError: x": LineOrigin("ValueError: x", rank=5),
    "Mon Mar 02 11:20:05 2026[1,5]<stderr>:ValueError: x": LineOrigin("ValueError: x", rank=5, time=AT),
    "[4]<stdout>:ValueError: x": LineOrigin("ValueError: x", rank=4),
    "(RayTrainWorker pid=812, ip=10.0.0.4) ValueError: x": LineOrigin("ValueError: x", node="10.0.0.4"),
    "worker-2: ValueError: x": LineOrigin("ValueError: x", node="worker-2"),
    "worker-2: [rank9]: 2026-03-02 11:20:05 ValueError: x": LineOrigin("ValueError: x", 9, "worker-2", AT),
    "Mar  2 11:20:05 gpu7 kernel: NVRM: Xid 79": LineOrigin("kernel: NVRM: Xid 79", node="gpu7", time=IN_1970),
    "[Mon Mar  2 11:20:05 2026] NVRM: Xid 79": LineOrigin("NVRM: Xid 79", time=AT),
    "[12345.678901] NVRM: Xid 79": LineOrigin("NVRM: Xid 79"),
    "gpu7:501:733 [2] NCCL WARN x": LineOrigin("gpu7:501:733 [2] NCCL WARN x", node="gpu7"),
    "[E ProcessGroupNCCL.cpp:607] [Rank 6] x": LineOrigin("[E ProcessGroupNCCL.cpp:607] [Rank 6] x", rank=6),
    "E0302 11:20:05.5 81 api.py:869] x": LineOrigin("E0302 11:20:05.5 81 api.py:869] x", time=IN_1970 + 500),
    "python3: can't open file": LineOrigin("python3: can't open file"),
    "ValueError: 3: x": LineOrigin("ValueError: 3: x"),
    "2026-13-45 99:20:05 x": LineOrigin("x"),
}


@pytest.mark.parametrize(("line", "origin"), LINES.items(), ids=LINES)
def test_the_origin_of_a_line(line: str, origin: LineOrigin) -> None:
    assert read_prefixes(line) == origin


@given(st.text(max_size=300))
def test_the_message_is_the_end_of_the_line(line: str) -> None:
    assert line.endswith(read_prefixes(line).message)
