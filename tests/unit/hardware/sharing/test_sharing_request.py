"""Requests from files and options, and `windlass gpu plan` itself: formats, exit codes and faults with their place."""

import json
from pathlib import Path

import pytest
import yaml

from windlass.cli.entry import main
from windlass.hardware.sharing.request import WorkloadKind
from windlass.hardware.sharing.request_file import load_request, read_trace, request_of_options
from windlass.jobs.errors import InputError

RIGHT = """\
pools:
- {name: a, gpu: A100-80GB, gpus: 8, nodes: 1}
workloads:
- name: chat
  kind: inference
  number: 4
  memory: 8Gi
  compute: 0.2
  duration: 40ms
  latency: 200ms
  arrivals: {rate: 20/s}
"""
EXAMPLE = Path(__file__).parents[4] / "examples/gpu-sharing/request.yaml"
POOL = "name=a,gpu=A100-80GB,gpus=8,nodes=1"
CHAT = "name=chat,kind=inference,number=4,memory=8Gi,compute=0.2,duration=40ms,latency=200ms,rate=20/s"


def written(tmp_path, text):
    path = tmp_path / "request.yaml"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("kind: inference", "kind: inferense", "5:9: kind expects 'inference' or 'notebook' or"),
        (
            "gpu: A100-80GB",
            "gpu: A100-80",
            "2:18: gpu is not known: there is no GPU 'A100-80' in the table; similar: A100-80GB",
        ),
        ("gpu: A100-80GB", "gpu: A100", "2:18: gpu is not known: several models are called A100; name one of"),
        ("memory: 8Gi", "memory: 8", "7:11: memory expects an amount of memory; 8 would be bytes. Write 8Gi"),
        ("rate: 20/s", "rate: 20", "11:20: rate expects arrivals in a time such as 20/s"),
        ("rate: 20/s", "rate: 0/s", "rate expects arrivals in a time such as 20/s"),
        ("rate: 20/s", "rate: 20/s, burst: 4, duty: 0.5", "11:36: a peak of 4 × the average lasts at most 0.25"),
        ("rate: 20/s", "burst: 4", "11:3: arrivals have either a rate or a trace; write for example rate: 20/s"),
        ("  number: 4\n", "  number: 4\n  gpus: 2\n", "7:3: only training and batch workloads have gpus; remove it"),
        ("  arrivals: {rate: 20/s}\n", "", "4:3: a service needs arrivals; write for example"),
        ("  duration: 40ms\n", "", "4:3: it lacks duration; write for example duration: 40ms"),
        ("duration: 40ms", "duration: 40", "duration expects a duration with a unit: 40s"),
        (", gpus: 8, nodes: 1", ", nodes: 1", "2:3: it needs gpu and gpus, or an instance"),
        ("gpu: A100-80GB", "gpu: A100-80GB, instance: p4d.24xlarge", "the instance states it; remove gpu"),
        (
            "gpu: A100-80GB",
            "instance: p4d.24xlrage",
            "there is no instance type 'p4d.24xlrage' in the table; similar: p4d",
        ),
        ("nodes: 1}", "nodes: 1, gpuz: 2}", "unknown field 'gpuz'; did you mean 'gpu'?"),
        ("compute: 0.2", "compute: 20", "compute expects a number from 0.01 to 1, not 20"),
        ("workloads:", "workloads: []\nseed: 1\nx:", "unknown field 'x'"),
        ("- name: chat", "- name: chat\n  name: chat", "'name' is written twice"),
        ("  latency: 200ms\n", "  latency: 200ms\n  slowdown: 2\n", "the limit of latency replaces it; remove one"),
    ],
)
def test_a_fault_has_its_place_and_the_fix(tmp_path, old, new, fault):
    assert old in RIGHT
    with pytest.raises(InputError) as raised:
        load_request(written(tmp_path, RIGHT.replace(old, new)))
    text = str(raised.value)
    assert fault in text
    assert text.startswith(str(tmp_path / "request.yaml"))


def test_two_workloads_of_one_name_are_a_fault(tmp_path):
    chat = RIGHT[RIGHT.index("- name: chat") :]
    with pytest.raises(InputError, match=r"12:3: 'chat' is the name of another already"):
        load_request(written(tmp_path, RIGHT + chat))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("1.0\nx\n", "trace.txt:2:1: a line of a trace is a number of seconds"),
        ("1.0\nnan\n", "trace.txt:2:1: a line of a trace"),
        ("5\n# later\n4\n", "trace.txt:3:1: times of a trace do not decrease"),
        ("5\n", "at least two arrivals"),
        ("1e300\n2e300\n", "a line of a trace"),
    ],
)
def test_a_faulty_trace_is_refused_with_its_line(tmp_path, text, fault):
    (tmp_path / "trace.txt").write_text(text)
    with pytest.raises(InputError, match=fault):
        read_trace(str(tmp_path / "trace.txt"))


def test_a_trace_is_found_beside_the_request(tmp_path):
    (tmp_path / "t.txt").write_text("0.5\n1\n\n3.5 # the last\n")
    request = load_request(written(tmp_path, RIGHT.replace("rate: 20/s", "trace: t.txt")))
    assert request.workloads[0].arrivals.trace == (0.5, 1, 3.5)


def test_options_state_the_same_request_as_a_file(tmp_path):
    assert request_of_options([POOL], [CHAT], 0) == load_request(written(tmp_path, RIGHT))


@pytest.mark.parametrize(
    ("pool", "workload", "fault"),
    [
        (
            POOL,
            "name=chat,kind=inference,memory=8Gi,duration=40ms",
            "--workload: chat: a service needs arrivals; write for example rate=20/s",
        ),
        (POOL, "name=t,kind=training,memory=70Gi", "--workload: t: it lacks duration; write for example duration=2d$"),
        (POOL, "name=b,kind=batch,memory=1Gi", "--workload: b: it lacks duration; write for example duration=20m$"),
        (POOL, "name=c,kind=inference,memory=1Gi", "c: it lacks duration; write for example duration=40ms$"),
        (POOL, "kind=training", "--workload: number 1: it lacks name; write for example name=chat"),
        ("name=a,nodes=4", CHAT, "it needs gpu and gpus, or an instance; write for example gpu=A100-80GB,gpus=8"),
        ("name=a,gpu=A100-80GB", CHAT, "--pool: a: it lacks nodes"),
        (POOL, CHAT.replace("kind", "knd"), "--workload: there is no setting 'knd'; did you mean 'kind'"),
        (POOL, "chat", "--workload: 'chat' is no setting; write it as name=value"),
        (POOL, "name", "--workload: 'name' is no setting; write it as name=value$"),
    ],
)
def test_a_faulty_option_is_named(pool, workload, fault):
    with pytest.raises(InputError, match=fault):
        request_of_options([pool], [workload], 0)


def test_the_faults_of_all_options_are_reported_together():
    with pytest.raises(InputError) as error:
        request_of_options([POOL, "gpus=none"], ["memory=much", CHAT], 0)
    assert [each.source for each in error.value.problems] == ["--pool", "--workload"]


def test_an_option_that_is_missing_is_named_as_an_option():
    with pytest.raises(InputError, match="--workload: a request needs workloads; write for example --workload name="):
        request_of_options([POOL], [], 0)


def test_the_example_places_all_of_its_pods(capsys):
    assert main(["gpu", "plan", str(EXAMPLE), "-o", "json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert [each["refused"] for each in plan["workloads"]] == [0] * 5
    modes = {each["name"]: each["placed"][0]["use"] for each in plan["workloads"]}
    assert modes == {
        "pretrain": "whole",
        "chat": "mig 2g.20gb",
        "embed": "mig 1g.10gb",
        "notebooks": "time-slicing × 3",
        "experiments": "mig 2g.20gb",
    }
    assert load_request(str(EXAMPLE)).workloads[0].kind is WorkloadKind.TRAINING


@pytest.mark.parametrize(
    ("form", "part"), [("text", "WORKLOAD"), ("markdown", "| workload | kind |"), ("yaml", "pools:")]
)
def test_formats(tmp_path, capsys, form, part):
    assert main(["gpu", "plan", written(tmp_path, RIGHT), "-o", form]) == 0
    assert part in capsys.readouterr().out


def test_a_pod_without_a_place_sets_the_exit_code(tmp_path, capsys):
    assert main(["gpu", "plan", written(tmp_path, RIGHT.replace("nodes: 1", "nodes: 0"))]) == 1
    assert "4 of 4 pods find no free GPUs on the 0 nodes; add nodes" in capsys.readouterr().out


def test_files_are_written_into_the_folder(tmp_path, capsys):
    folder = tmp_path / "new/files"
    assert main(["gpu", "plan", written(tmp_path, RIGHT), "--render", str(folder)]) == 0
    assert {path.name for path in folder.iterdir()} >= {
        "cluster-policy.yaml",
        "mig-parted-config.yaml",
        "label-nodes.sh",
    }
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("wrote cluster-policy.yaml, ")
    assert printed.err.endswith(f" to {folder}\n")


def test_the_report_is_printed_beside_written_files_on_request(tmp_path, capsys):
    words = ("--render", str(tmp_path / "files"), "-o", "json")
    assert main(["gpu", "plan", written(tmp_path, RIGHT), *words]) == 0
    assert json.loads(capsys.readouterr().out)["pools"]


def test_one_node_is_no_plural(tmp_path, capsys):
    assert main(["gpu", "plan", written(tmp_path, RIGHT)]) == 0
    assert capsys.readouterr().out.startswith("pool a: 1 node × ")


def test_a_dash_prints_the_files_as_one_yaml_stream(tmp_path, capsys):
    assert main(["gpu", "plan", written(tmp_path, RIGHT), "--render", "-"]) == 0
    kinds = {each["kind"] for each in yaml.safe_load_all(capsys.readouterr().out) if each and "kind" in each}
    assert kinds == {"ConfigMap", "ClusterPolicy", "Queue", "DeviceClass", "ResourceClaimTemplate"}


def test_the_help_of_a_wrong_command_line_is_one_line(tmp_path, capsys):
    assert main(["gpu", "plan"]) == 2
    assert "name either a FILE, or pools and workloads" in capsys.readouterr().err
