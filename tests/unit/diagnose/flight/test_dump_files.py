"""Dumps among the files of a job: found by content, numbered by name, and described by one line where unusable."""

import contextlib
import json
import os
import pickle
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded_calls import TORCH_FRAME, as_json, as_pickle, call, content

from windlass.diagnose.flight import dump_files
from windlass.diagnose.flight.dump_files import read_dump_files
from windlass.diagnose.flight.dump_format import is_dump, parse_dump
from windlass.diagnose.flight.records import DumpError, Progress, SourceFrame

GROUPS = {("0", "default_pg"): [0, 1]}
CONTENT = content([call("all_reduce", 1), call("broadcast", 2, state="started")], GROUPS)


def test_an_entry_has_its_operation_its_state_and_the_frame_of_the_program() -> None:
    dump = parse_dump(as_pickle(CONTENT), 0, "name")
    first, second = dump.entries
    assert (first.backend, first.name, first.sequence, first.progress) == ("nccl", "all_reduce", 1, Progress.COMPLETED)
    assert (second.name, second.progress) == ("broadcast", Progress.STARTED)
    assert first.frame == SourceFrame("step", "/job/train.py", 10)
    assert first.inputs.sizes == ((8,),)
    assert dump.members == {("0", "default_pg"): (0, 1)}
    assert not dump.is_wrapped


def test_the_json_form_has_the_same_entries_without_frames() -> None:
    by_pickle, by_json = parse_dump(as_pickle(CONTENT), 0, "name"), parse_dump(as_json(CONTENT), 0, "name")
    assert [(each.name, each.sequence, each.progress) for each in by_json.entries] == [
        (each.name, each.sequence, each.progress) for each in by_pickle.entries
    ]
    assert {each.frame for each in by_json.entries} == {None}


def test_a_full_buffer_is_known_by_the_number_of_its_oldest_record() -> None:
    assert parse_dump(as_pickle(content([call()], GROUPS, first_record=7)), 0, "name").is_wrapped


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("nccl_trace_rank_12", 12),
        ("gloo_trace_rank_3.json", 3),
        ("nccl_trace_r7", 7),
        ("job42_rank5_host9.pickle", 5),
        ("trace_0004", 4),
        ("rank2/trace", 2),
        ("6/fr.pkl", 6),
    ],
)
def test_the_rank_is_in_the_name_of_the_file_or_its_folder(tmp_path: Path, name: str, rank: int) -> None:
    write(tmp_path / name, as_pickle(CONTENT))
    found = read_dump_files([tmp_path / name])
    assert ([dump.rank for dump in found.dumps], found.problems) == ([rank], [])


def test_dumps_are_found_among_logs_by_content(tmp_path: Path) -> None:
    paths = [
        write(tmp_path / "nccl_trace_rank_0", as_pickle(CONTENT)),
        write(tmp_path / "rank1.json", as_json(CONTENT)),
        write(tmp_path / "rank0.log", b"[rank0]: a line\n"),
        write(tmp_path / "config.json", b'{"model": "entries", "version": 1}'),
        write(tmp_path / "rank0.jsonl", b'{"step": 1}\n' * 10_000),
        write(tmp_path / "weights_2.pkl", pickle.dumps({"entries": [1, 2, 3]})),
        write(tmp_path / "empty_3", b""),
    ]
    found = read_dump_files([*paths, tmp_path / "absent"])
    assert [dump.rank for dump in found.dumps] == [0, 1]
    assert (found.paths, found.problems) == (frozenset(paths[:2]), [])


def test_a_link_or_pipe_in_the_place_of_a_dump_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(as_pickle(CONTENT))
    link, pipe = tmp_path / "nccl_trace_rank_0", tmp_path / "nccl_trace_rank_1"
    link.symlink_to(tmp_path / "secret")
    os.mkfifo(pipe)  # opening it would wait for a writer
    assert not read_dump_files([link, pipe]).dumps


def test_the_latest_attempt_counts(tmp_path: Path) -> None:
    for attempt, ranks in {1: (0, 1), 2: (0,), 10: (1,)}.items():
        for rank in ranks:
            write(tmp_path / f"node-{rank}" / f"attempt_{attempt}" / f"nccl_trace_rank_{rank}", as_pickle(CONTENT))
    found = read_dump_files(path for path in tmp_path.rglob("*") if path.is_file())
    assert [Path(dump.source).parent.name for dump in found.dumps] == ["attempt_10"]


def test_the_dumps_of_an_attempt_are_stale_where_a_later_one_left_none(tmp_path: Path) -> None:
    folder = tmp_path / "attempt_77"
    paths = [
        write(folder / "attempt_0" / "nccl_trace_rank_0", as_pickle(CONTENT)),
        write(folder / "attempt_1" / "0" / "stderr.log", b"a line"),
    ]
    assert read_dump_files(paths).dumps == []
    assert [dump.rank for dump in read_dump_files(paths[:1]).dumps] == [0]
    assert read_dump_files(paths).paths == {paths[0]}
    beside = write(tmp_path / "nccl_trace_rank_5", as_pickle(CONTENT))
    assert [dump.rank for dump in read_dump_files([*paths, beside]).dumps] == [5]
    assert [dump.rank for dump in read_dump_files([Path("relative.log"), paths[0]]).dumps] == [0]


def test_of_two_dumps_of_a_rank_the_newer_one_counts(tmp_path: Path) -> None:
    old = content([call("all_reduce", 1)], GROUPS)
    new = content([call("all_reduce", 1), call("barrier", 2, after_s=5)], GROUPS)
    paths = [
        write(tmp_path / "a_rank_0", as_pickle(new)),
        write(tmp_path / "b_rank_0", as_pickle(old)),
        write(tmp_path / "c_rank_0.json", as_json(new)),
    ]
    (dump,) = read_dump_files(paths).dumps
    assert [entry.name for entry in dump.entries] == ["all_reduce", "barrier"]
    assert dump.entries[-1].frame is not None  # the pickle has stacks


def test_the_dumps_of_two_backends_of_a_rank_are_joined_by_time(tmp_path: Path) -> None:
    gloo = content([call("barrier", 1, after_s=1)], {})
    gloo["entries"][0]["profiling_name"] = "gloo:barrier"
    nccl = content([call("all_reduce", 1), call("all_reduce", 2, after_s=2)], GROUPS)
    paths = [
        write(tmp_path / f"{name}_trace_rank_0", as_pickle(each)) for name, each in {"gloo": gloo, "nccl": nccl}.items()
    ]
    (dump,) = read_dump_files(paths).dumps
    assert [entry.backend for entry in dump.entries] == ["nccl", "gloo", "nccl"]


UNUSABLE = {
    "cut off": (as_pickle(CONTENT)[:-40], "is cut off after"),
    "cut off json": (as_json(CONTENT)[:-40], "is no valid JSON"),
    "deep json": (b'{"version": "2.1", "pg_config": ' + b"[" * 100_000, "is no valid JSON"),
    "old format": (as_pickle({**CONTENT, "version": "1.5"}), "has format 1.5"),
    "no entries": (as_pickle({**CONTENT, "entries": "none"}), "no list of entries"),
    "wrong entry": (as_pickle({**CONTENT, "entries": [1]}), "an entry that is no object"),
    "no group": (
        as_pickle({**CONTENT, "entries": [{"profiling_name": "nccl:send 0->1"}]}),
        "without its process group",
    ),
    "wrong sizes": (as_pickle({**CONTENT, "entries": [{**call(), "input_sizes": [["a"]]}]}), "input_sizes"),
    "wrong frames": (as_pickle({**CONTENT, "entries": [{**call(), "frames": 3}]}), "frames are no list"),
    "wrong groups": (as_pickle({**CONTENT, "pg_config": [1]}), "pg_config"),
    "code": (b"\x80\x02X\x09\x00\x00\x00pg_configcos\nsystem\nX\x04\x00\x00\x00true\x85R.", "may run code"),
}


@pytest.mark.parametrize(("data", "reason"), UNUSABLE.values(), ids=UNUSABLE)
def test_an_unusable_dump_is_one_line_with_its_reason(tmp_path: Path, data: bytes, reason: str) -> None:
    bad, good = write(tmp_path / "t_rank_0", data), write(tmp_path / "t_rank_1", as_pickle(CONTENT))
    found = read_dump_files([bad, good])
    assert [dump.rank for dump in found.dumps] == [1]
    (problem,) = found.problems
    assert str(bad) in problem
    assert reason in problem
    assert "\n" not in problem
    assert len(problem) < 600


@dataclass
class Group:
    """Stands for the classes of `torch.distributed.flight_recorder` in a database of torch's analyzer."""

    flight_recorder: str


def test_the_output_of_torchs_analyzer_is_no_dump(tmp_path: Path) -> None:
    path = write(tmp_path / "db_1", pickle.dumps([Group("name")]))
    (problem,) = read_dump_files([path]).problems
    assert "take the dump from torch itself" in problem


def test_a_huge_dump_is_refused_after_a_bounded_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dump_files, "MAX_DUMP_BYTES", 1 << 20)
    path = write(tmp_path / "nccl_trace_rank_0", as_pickle(CONTENT))
    os.truncate(path, 1 << 36)  # a sparse file
    (problem,) = read_dump_files([path]).problems
    assert "larger than 1 MiB" in problem


def test_names_from_a_dump_cannot_control_a_terminal() -> None:
    hostile = content([call(at="\x1b]0;x\x07\n\u202e.py:1 in f\x1b[2J")], GROUPS)
    (entry,) = parse_dump(as_pickle(hostile), 0, "name").entries
    assert not any(ord(each) < 32 or each == "\u202e" for each in str(entry.frame))


def repeated(field: str, count: int) -> dict[str, object]:
    """Returns a dump in which one object stands `count` times in a list: small in a pickle, large in memory."""
    if field == "entries":
        return {**CONTENT, "entries": [call()] * count}
    if field == "pg_config":
        return {**CONTENT, "pg_config": {str(each): {"name": str(each), "ranks": RANKS} for each in range(count)}}
    entry = {**call(), field: [call()[field][0]] * count}
    return {**CONTENT, "entries": [entry] * 100}


RANKS = str(list(range(20_000)))


@pytest.mark.parametrize(
    ("field", "count", "bound"),
    [
        ("entries", 20_001, "over 20000 entries"),
        ("input_sizes", 10_000, "over 500000 tensors"),
        ("output_dtypes", 10_000, "over 500000 tensors"),
        ("pg_config", 60, "over 1000000 members"),
    ],
)
def test_content_that_is_larger_than_its_file_is_refused(field: str, count: int, bound: str) -> None:
    data = pickle.dumps(repeated(field, count), 2)
    assert len(data) < 1 << 20
    with pytest.raises(DumpError, match=bound):
        parse_dump(data, 0, "name")


def test_a_stack_of_any_length_is_read_to_a_bound() -> None:
    entry = {**call(), "frames": [TORCH_FRAME] * 1_000_000}
    (found,) = parse_dump(as_pickle({**CONTENT, "entries": [entry]}), 0, "name").entries
    assert found.frame is None


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)


@given(st.sampled_from(sorted(call())), plain, st.sampled_from(["pickle", "json"]))
def test_any_value_of_any_field_is_read_or_refused(field: str, value: object, form: str) -> None:
    changed = {**CONTENT, "entries": [{**call(), field: value}]}
    data = json.dumps(changed).encode() if form == "json" else pickle.dumps(changed, 4)
    with contextlib.suppress(DumpError):
        parse_dump(data, 0, "name")


@given(st.binary(max_size=200), st.integers(0, 400))
def test_any_damage_to_a_pickle_is_read_or_refused(noise: bytes, at: int) -> None:
    whole = as_pickle(CONTENT)
    data = whole[:at] + noise + whole[at + len(noise) :]
    if is_dump(data):
        with contextlib.suppress(DumpError):
            parse_dump(data, 0, "name")


def write(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path
