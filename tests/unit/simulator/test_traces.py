"""Trace formats: all are read as the same jobs, and an error is one line with file, row and fix."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from windlass.backends.simulator.errors import TraceError
from windlass.backends.simulator.traces.job import Trace, TraceJob
from windlass.backends.simulator.traces.jsonl import written
from windlass.backends.simulator.traces.read import read_trace

PHILLY = """timestamp,duration,num_gpus,gpu_time,cluster
2017-10-09 07:01:55,66.0,16,1056.0,11cb48
2017-10-09 06:13:03,2951.0,1,2951.0,6214e9
"""
HELIOS = """job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
7,u1,vcA,4,24,1,COMPLETED,2020-04-01 00:00:00,2020-04-01 00:00:10,2020-04-01 00:01:10,60,10
"""
MURI = """job_id,num_gpu,submit_time,iterations,model_name,iteration_time,priority
0,4,1456000,1000,bert,2000,1
"""
OPENB = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
p0,6000,12288,1,460,V100M16|V100M32,LS,Running,100,400,150
p1,6000,12288,2,1000,,BE,Pending,100,400,
"""
SACCT = """JobID|User|Partition|State|Submit|Start|Elapsed|Timelimit|AllocTRES|ReqTRES
12|ann|gpu|COMPLETED|2026-01-05T10:00:00|2026-01-05T10:05:00|1-02:00:30|2-00:00:00|billing=4,cpu=32,gres/gpu:a100=16,gres/gpu=16,mem=256G,node=2|
12.batch|ann|gpu|COMPLETED|2026-01-05T10:00:00|2026-01-05T10:05:00|1-02:00:30||cpu=16,mem=128G,node=1|
13|bob|gpu|PENDING|2026-01-05T10:00:00|Unknown|00:00:00|UNLIMITED||cpu=1,mem=1G,node=1
14|bob|gpu|CANCELLED by 0|2026-01-05T10:00:00|2026-01-05T11:00:00|00:30:00|UNLIMITED||cpu=1,gres/gpu:v100=1,node=1
"""
SWF = """; Version: 2.2
; MaxProcs: 128
1 0 5 3600 64 -1 -1 64 7200 1024 1 3 1 -1 2 -1 -1 -1
2 10 5 -1 -1 -1 -1 64 7200 -1 5 3 1 -1 2 -1 -1 -1
"""
LINES = """{"id":"a-1","submit":1000,"duration":60000,"replicas":2,"gpus":8,"queue":"research","walltime":90000}
{"id":"b-2","phase":"Failed","created_at":2000,"started_at":3000,"finished_at":9000,"replicas":2,"request":{"gpu":4}}
"""


@pytest.fixture
def read(tmp_path: Path):
    def reader(text: str, **how) -> Trace:
        path = tmp_path / "trace"
        path.write_text(text)
        return read_trace(path, **how)

    return reader


def test_a_philly_trace_has_total_gpus_and_is_sorted(read) -> None:
    trace = read(PHILLY)
    assert trace.format == "philly"
    assert trace.jobs == (
        TraceJob("philly-3", 1507529583000, 2951000, gpus=1, replicas=None, queue="6214e9", row=3),
        TraceJob("philly-2", 1507532515000, 66000, gpus=16, replicas=None, queue="11cb48", row=2),
    )


def test_a_helios_trace_is_read(read) -> None:
    (job,) = read(HELIOS).jobs
    assert job == TraceJob(
        "7", 1585699200000, 60000, gpus=4, replicas=None, cpu=24000, user="u1", queue="vcA", status="COMPLETED", row=2
    )


def test_a_muri_jobs_work_is_its_iterations_plus_overhead(read) -> None:
    (job,) = read(MURI).jobs
    assert (job.submit, job.duration, job.gpus) == (1456000, 2030000, 4)


def test_an_openb_trace_has_shared_gpus_and_run_times_from_start_or_creation(read) -> None:
    shared, whole = read(OPENB).jobs
    assert (shared.gpus, shared.gpu_milli, shared.gpu_types) == (0, 460, ("V100M16", "V100M32"))
    assert (shared.submit, shared.duration, shared.memory) == (100_000, 250_000, 12 * 2**30)
    assert (whole.gpus, whole.gpu_milli, whole.duration) == (2, 0, 300_000)


def test_a_sacct_trace_is_divided_by_nodes_and_counts_rows_without_a_run(read) -> None:
    trace = read(SACCT)
    first, second = trace.jobs
    assert (first.replicas, first.gpus, first.cpu, first.memory) == (2, 8, 16_000, 128 * 2**30)
    assert (first.duration, first.walltime, first.gpu_types) == (93_630_000, 172_800_000, ("a100",))
    assert (second.gpus, second.walltime, second.status) == (1, None, "CANCELLED")
    assert trace.left_out == {"step of a job": 1, "never started": 1}


def test_swf_processors_are_read_as_replicas_of_one_core(read) -> None:
    trace = read(SWF)
    (job,) = trace.jobs
    assert (job.replicas, job.cpu, job.memory, job.walltime) == (64, 1000, 2**20, 7_200_000)
    assert (job.user, job.queue, job.status) == ("3", "q2", "completed")
    assert trace.left_out == {"never started": 1}


def test_json_lines_of_traces_and_of_history_are_read(read) -> None:
    own, past = read(LINES).jobs
    assert (own.gpus, own.replicas, own.queue, own.walltime) == (8, 2, "research", 90_000)
    assert (past.submit, past.duration, past.gpus, past.replicas, past.status) == (2000, 6000, 2, 2, "Failed")


@pytest.mark.parametrize("text", [PHILLY, HELIOS, MURI, OPENB, SACCT, SWF, LINES])
def test_written_jobs_are_read_as_the_same_jobs(read, text: str) -> None:
    def plain(trace: Trace) -> list[TraceJob]:
        return [
            TraceJob(**{name: getattr(job, name) for name in TraceJob.__slots__ if name != "row"}) for job in trace.jobs
        ]

    before = read(text)
    assert plain(read(written(before.jobs))) == plain(before)


def test_gzip_is_recognised_by_its_first_bytes(tmp_path: Path) -> None:
    path = tmp_path / "no-suffix"
    path.write_bytes(gzip.compress(PHILLY.encode()))
    assert len(read_trace(path).jobs) == 2


BAD = [
    (PHILLY.replace("num_gpus", "gpus"), "row 1: Philly CSV needs the columns timestamp, duration, num_gpus; missing"),
    (
        PHILLY.replace("66.0,", "-66.0,"),
        "row 2: duration is -66.0, which is negative; correct the row, or leave",
    ),
    (PHILLY.replace("66.0,", "1e12,"), "row 2: duration is 1e12, and 315,360,000 is the maximum"),
    (PHILLY.replace(",16,", ",1.5,"), "row 2: num_gpus is 1.5, not a whole number"),
    (PHILLY.replace("66.0,", "nan,"), "row 2: duration is 'nan', not a number"),
    (PHILLY.replace("2017-10-09 07:01:55", "yesterday"), "row 2: timestamp is 'yesterday'; write it as 2017-10-09"),
    (PHILLY.replace(",16,1056.0,11cb48", ""), "row 2: the row has 2 of 5 columns"),
    (OPENB.replace("100,400,150", "100,140,150"), "row 2: deletion_time is before scheduled_time by 10 s"),
    (OPENB.replace(",2,1000,", ",2,500,"), "row 3: num_gpu is 2 and gpu_milli 500; several GPUs are taken whole"),
    (SACCT.replace("T10:05:00|1-02", "T09:05:00|1-02", 1), "row 2: Start is before Submit by 3300 s"),
    (SWF.replace("2 10 5 -1", "2 10 5 9").replace("1 0 5", "1 20 5"), "row 4: submitted before the row above"),
    (LINES.replace('"replicas":2', '"replicas":0', 1), "row 1: replicas is 0"),
    (LINES.replace("60000", "-1"), "row 1: duration is -1, which is negative"),
    (LINES.replace('"gpus":8', '"gpus":"8"'), "row 1: Expected `int`, got `str` - at `$.gpus`"),
    (MURI.replace("1000,bert,2000", "1000000,bert,2000000000"), "row 2: iteration_time is 2000000000, and"),
    ("", "the file is empty"),
    ("a,b,c\n1,2,3\n", "row 1: no format that is known; force one with --format"),
    (PHILLY.splitlines()[0], "no job in it"),
]


@pytest.mark.parametrize(("text", "message"), BAD, ids=[message[:40] for _, message in BAD])
def test_bad_input_is_one_line_with_the_row_and_the_fix(read, text: str, message: str) -> None:
    with pytest.raises(TraceError) as raised:
        read(text)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_bad_rows_can_be_left_out_and_are_counted_by_cause(read) -> None:
    trace = read(PHILLY + "2017-10-09 06:13:03,-1,1,,\n2017-10-09 06:13:03,x,1,,\nshort\n", skip_bad=True)
    assert len(trace.jobs) == 2
    assert trace.left_out == {"negative value": 1, "not a number": 1, "short row": 1}


def test_a_truncated_gzip_is_an_error_with_the_row_or_one_bad_row(tmp_path: Path) -> None:
    path = tmp_path / "cut.csv.gz"
    rows = [f"2017-10-09 07:{n % 60:02}:55,{n},{n % 8 + 1},1.0,c{n * n}" for n in range(5000)]
    path.write_bytes(gzip.compress("\n".join([PHILLY.splitlines()[0], *rows]).encode())[:20_000])
    with pytest.raises(TraceError, match=r"cut.csv.gz, row \d+: the file ends early, its gzip is cut off: ") as raised:
        read_trace(path)
    assert re.search(
        r"off: [\d,]+ rows could be read; fetch it again, or take those with --skip-bad$", str(raised.value)
    )
    trace = read_trace(path, skip_bad=True)
    assert 100 < len(trace.jobs) < 5000
    assert trace.left_out["file cut off"] == 1


def test_missing_files_and_unknown_formats_are_errors(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="nothing: cannot be read: No such file"):
        read_trace(tmp_path / "nothing")
    with pytest.raises(TraceError, match="there is no format csv; there are philly, helios"):
        read_trace(tmp_path / "nothing", format="csv")


def test_the_format_can_be_forced(read) -> None:
    with pytest.raises(TraceError, match="Helios CSV needs the columns gpu_num, submit_time, duration; missing"):
        read(PHILLY, format="helios")
