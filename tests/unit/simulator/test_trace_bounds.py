"""Traces of strangers: a small packed file does not become a large amount of memory."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import pytest

from windlass.backends.simulator.clusters import read_nodes
from windlass.backends.simulator.errors import TraceError
from windlass.backends.simulator.faults import read_faults
from windlass.backends.simulator.traces import file as trace_file
from windlass.backends.simulator.traces.read import read_trace

_MIB = 1 << 20
_HELIOS = "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
_JOB = '{"id":"a","submit":1000,"duration":60000,"replicas":1,"gpus":8' + " " * 400 + "}\n"

_MEASURE = """
import sys
from windlass.backends.simulator.traces.read import read_trace

def peak():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))

before = peak()
try:
    read_trace(sys.argv[1])
except Exception as error:
    print(peak() - before, type(error).__name__, error)
"""


def _pack(path: Path, start: bytes, repeated: bytes, count: int) -> Path:
    """Writes a gzip of `start` and `count` MiB of a repeated piece: a gzip file may have several members."""
    block = (repeated * (_MIB // len(repeated) + 1))[: _MIB // len(repeated) * len(repeated)]
    path.write_bytes(gzip.compress(start) + gzip.compress(block) * count)
    return path


@pytest.mark.parametrize(
    ("start", "repeated", "message"),
    [
        (b"", b"a", "row 1: the line is longer than"),
        (_HELIOS.encode(), b"a", "row 2: the line is longer than"),
        (_HELIOS.encode() + b'"', b"a,\n", "field larger than field limit"),
        (b"", b" " * 10 + b"\n", "unpacks to more than 100 times its size"),
        (b"", _JOB.encode(), "unpacks to more than 100 times its size"),
    ],
    ids=["a-line-without-an-end", "a-row-without-an-end", "a-quote-without-an-end", "blank-lines", "equal-jobs"],
)
def test_a_packed_trace_takes_a_bounded_memory(tmp_path: Path, start: bytes, repeated: bytes, message: str) -> None:
    path = _pack(tmp_path / "trace.gz", start, repeated, 200)
    assert path.stat().st_size < 2 * _MIB
    ran = subprocess.run([sys.executable, "-c", _MEASURE, str(path)], capture_output=True, text=True, check=True)
    grown, error, text = ran.stdout.split(maxsplit=2)
    assert error == "TraceError"
    assert f"{path}" in text
    assert message in text
    assert int(grown) < 300 << 10, "kB"


@pytest.mark.parametrize(
    ("read", "start"),
    [(read_trace, _HELIOS), (read_nodes, "sn,cpu_milli,memory_mib,gpu\n"), (lambda path: read_faults(path, ()), "\n")],
    ids=["trace", "nodes", "faults"],
)
def test_a_long_line_that_is_not_packed_is_refused(tmp_path: Path, read, start: str) -> None:
    path = tmp_path / "trace"
    path.write_text(start + "a" * (2 * _MIB))
    with pytest.raises(TraceError, match="row 2: the line is longer than 1,048,576 characters"):
        read(str(path))


@pytest.mark.parametrize("read", [read_trace, read_nodes])
def test_a_quote_that_never_ends_is_an_error_of_the_row(tmp_path: Path, read) -> None:
    path = tmp_path / "trace"
    headers = {read_trace: _HELIOS, read_nodes: "sn,cpu_milli,memory_mib,gpu\n"}
    path.write_text(headers[read] + '7,"' + "a\n" * 100_000)
    with pytest.raises(TraceError, match=r"row \d+: .*(field larger|the row is longer)"):
        read(str(path))


def test_a_row_of_many_quoted_fields_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_text(_HELIOS + '"7\n",' * 400_000)
    with pytest.raises(TraceError, match="the row is longer than 1,048,576 characters"):
        read_trace(path)


def test_a_list_of_nodes_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "nodes"
    path.write_text("num_node_p_switch,num_gpu_p_node\n" + "90000,8\n" * 3)
    with pytest.raises(TraceError, match="more than 100,000 nodes"):
        read_nodes(str(path))


def test_a_gzip_of_equal_rows_is_read_while_it_is_small(tmp_path: Path) -> None:
    path = tmp_path / "trace.gz"
    path.write_bytes(gzip.compress((_JOB * 20_000).encode()))
    assert path.stat().st_size * 50 < len(_JOB) * 20_000 < trace_file.UNPACKED_FREE_BYTES
    assert len(read_trace(path).jobs) == 20_000
