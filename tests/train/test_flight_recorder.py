"""Dumps of real ranks over gloo, and the verdicts of torch's own analyzer on dumps in NCCL's structure."""

import argparse
import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from forked_ranks import ranks
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded_calls import DEFAULT, as_pickle, call, content
from torch._C import _distributed_c10d
from torch.distributed.flight_recorder.components import builder

from windlass.diagnose.flight.analysis import analyse_dumps
from windlass.diagnose.flight.dump_files import read_dump_files
from windlass.diagnose.flight.dump_format import parse_dump
from windlass.diagnose.flight.facts import read_hang_evidence
from windlass.train.telemetry import heartbeat

TIMEOUT = timedelta(seconds=2.5)
DUMP_AFTER_S = 1.4
"""Time from the start of the wait to the dump: shorter than the timeout, longer than a wait that counts."""


def run(folder: str, script: str) -> None:
    """Runs one of the scripts below on a rank, and dumps its flight recorder while the ranks wait for each other."""
    _distributed_c10d._reset_fr_recording_nccl()
    dist.init_process_group("gloo", timeout=TIMEOUT)
    rank = dist.get_rank()
    dump = threading.Timer(DUMP_AFTER_S, heartbeat._write_flight_record, (Path(folder), rank))
    dist.barrier()
    dump.start()
    with contextlib.suppress(RuntimeError):  # the timeout of the collective, or a peer that has left
        SCRIPTS[script](rank)
    dump.join()
    json = Path(folder, "json", f"rank_{rank}.json")
    json.parent.mkdir(exist_ok=True)
    json.write_bytes(_distributed_c10d._dump_fr_trace_json())
    dist.destroy_process_group()


def one_rank_stays_out(rank: int) -> None:
    dist.broadcast(torch.ones(4), 0)
    if rank == 1:
        time.sleep(DUMP_AFTER_S)
    else:
        dist.all_reduce(torch.ones(4))


def one_rank_evaluates(rank: int) -> None:
    dist.all_reduce(torch.ones(4))
    if rank == 2:
        dist.broadcast(torch.ones(4), 2)
        dist.barrier()
    else:
        dist.all_reduce(torch.ones(6))
        dist.barrier()


def one_rank_stays_out_of_a_group(rank: int) -> None:
    pair = dist.new_group([0, 1], timeout=TIMEOUT, group_desc="pair")
    if rank == 0:
        dist.all_reduce(torch.ones(2), group=pair)
    dist.barrier()


SCRIPTS: dict[str, Callable[[int], None]] = {
    each.__name__: each for each in (one_rank_stays_out, one_rank_evaluates, one_rank_stays_out_of_a_group)
}


def facts_of(folder: Path, script: Callable[[int], None]) -> Any:
    ranks(3, run, str(folder), script.__name__)
    evidence = read_hang_evidence([path for path in folder.iterdir() if path.is_file()], expected_ranks=3)
    assert evidence.gaps == []
    (fact,) = evidence.facts
    return fact


def test_the_rank_that_stays_out_is_named_with_collective_number_and_place(tmp_path: Path) -> None:
    fact = facts_of(tmp_path, one_rank_stays_out)
    assert (fact.rule, fact.rank) == ("flight-missing-rank", 1)
    assert (fact.values["op"], fact.values["seq"], fact.values["waiting"]) == ("all_reduce", "3", "0, 2")
    assert fact.values["group"] == "default_pg (gloo)"
    assert fact.values["place"].endswith("in one_rank_stays_out")
    assert fact.values["last"].startswith("broadcast number 2 of group default_pg, ended, at test_flight_recorder.py:")
    by_json = analyse_dumps(read_dump_files((tmp_path / "json").iterdir()).dumps)
    assert [(each.rule, each.ranks, each.values["seq"]) for each in by_json.findings] == [
        ("flight-missing-rank", (1,), "3")
    ]


def test_the_rank_that_calls_another_collective_is_named_with_both_places(tmp_path: Path) -> None:
    fact = facts_of(tmp_path, one_rank_evaluates)
    assert (fact.rule, fact.rank, fact.values["seq"]) == ("flight-divergent-collectives", 2, "3")
    assert fact.values["call"].startswith("broadcast [4] Float at test_flight_recorder.py:")
    assert fact.values["other"].startswith("all_reduce [6] Float at test_flight_recorder.py:")


def test_a_rank_that_waits_in_another_group_is_not_blamed_for_the_barrier(tmp_path: Path) -> None:
    fact = facts_of(tmp_path, one_rank_stays_out_of_a_group)
    assert (fact.rule, fact.values["waiting"]) == ("flight-group-of-unknown-members", "0")
    assert (fact.values["op"], fact.values["group"]) == ("all_reduce", "pair (gloo)")


# --- torch's analyzer ---------------------------------------------------------------------------------


def verdict_of_torch(calls: Mapping[int, Sequence[Mapping[str, Any]]]) -> tuple[int, str, set[int]] | None:
    """Number, kind and ranks of the first collective that torch's analyzer finds wrong."""
    details = {
        str(rank): {"rank": rank, "host_name": "", **content(each, {DEFAULT: sorted(calls)})}
        for rank, each in calls.items()
    }
    options = argparse.Namespace(verbose=False, just_print_entries=False, allow_incomplete_ranks=True, mismatch_cap=10)
    for found in builder.build_db(details, options, "2.10").collectives:
        if found.missing_ranks:
            return found.collective_seq_id, "missing", set(found.missing_ranks)
        if found.mismatch_collectives:
            kinds = {each.type_of_mismatch.state.name for each in found.mismatch_collectives.values()}
            return found.collective_seq_id, "+".join(sorted(kinds)), set(found.mismatch_collectives)
    return None


def our_verdict(calls: Mapping[int, Sequence[Mapping[str, Any]]]) -> tuple[int, str, set[int]] | None:
    members = {DEFAULT: sorted(calls)}
    dumps = [parse_dump(as_pickle(content(each, members)), rank, str(rank)) for rank, each in calls.items()]
    found = analyse_dumps(dumps).findings
    if not found:
        return None
    return int(found[0].values["seq"]), found[0].rule, set(found[0].ranks)


NAMES = ("all_reduce", "broadcast", "_all_gather_base", "barrier")
histories = st.lists(st.sampled_from(NAMES), min_size=1, max_size=6)


def recorded(names: Sequence[str], waits_at: int) -> list[dict[str, Any]]:
    """Calls of one rank: completed before `waits_at`."""
    return [
        call(name, number, state="completed" if number < waits_at else "started", sizes=(4,))
        for number, name in enumerate(names, 1)
    ]


@settings(deadline=None)
@given(histories, st.integers(2, 4), st.data())
def test_torch_names_the_same_missing_ranks(names: list[str], world: int, data: st.DataObject) -> None:
    missing = data.draw(st.sets(st.integers(0, world - 1), min_size=1, max_size=world - 1))
    at = data.draw(st.integers(1, len(names)))
    calls = {rank: recorded(names[: at - 1] if rank in missing else names[:at], at) for rank in range(world)}
    expected = (at, missing)
    assert verdict_of_torch(calls) == (at, "missing", missing)
    number, rule, blamed = our_verdict(calls) or (0, "", set())
    assert (number, blamed) == expected
    assert rule == "flight-missing-rank"


@settings(deadline=None)
@given(histories, st.integers(3, 4), st.data())
def test_torch_finds_the_same_collective_different(names: list[str], world: int, data: st.DataObject) -> None:
    deviating = data.draw(st.integers(0, world - 1))
    at = data.draw(st.integers(1, len(names)))
    name = data.draw(st.sampled_from([each for each in NAMES if each != names[at - 1]]))
    other = [*names[: at - 1], name]
    calls = {rank: recorded(other if rank == deviating else names[:at], at) for rank in range(world)}
    number, kind, blamed = verdict_of_torch(calls) or (0, "", set())
    assert (number, kind) == (at, "COLLECTIVE_TYPE_MISMATCH")
    assert our_verdict(calls) == (at, "flight-divergent-collectives", {deviating})
    # torch compares with the lowest rank, and names all others where that one deviates
    assert blamed == ({deviating} if deviating else set(range(1, world)))


@pytest.mark.parametrize(("name", "size", "dtype", "kind"), [
    ("all_reduce", 8, "Float", "SIZE_OR_SYNTAX_MISMATCH"),
    ("all_reduce", 4, "Half", "COLLECTIVE_DTYPE_MISMATCH"),
])  # fmt: skip
def test_torch_finds_the_same_tensors_different(name: str, size: int, dtype: str, kind: str) -> None:
    usual, other = (
        call(name, 1, sizes=(4,), state="started"),
        call(name, 1, sizes=(size,), dtype=dtype, state="started"),
    )
    calls = {0: [usual], 1: [usual], 2: [other]}
    assert verdict_of_torch(calls) == (1, kind, {2})
    assert our_verdict(calls) == (1, "flight-divergent-collectives", {2})


def test_a_collective_that_some_ranks_completed_is_a_finding_of_both() -> None:
    begun, done = [call("all_reduce", 1, state="started")], [call("all_reduce", 1)]
    calls = {0: done, 1: begun, 2: done}
    assert verdict_of_torch(calls) == (1, "COLLECTIVE_STATE_MISMATCH", {1})
    assert our_verdict(calls) == (1, "flight-stalled-collective", set())


def test_ranks_that_agree_are_right_for_both() -> None:
    calls = {rank: recorded(["all_reduce", "barrier"], 3) for rank in range(3)}
    assert verdict_of_torch(calls) is None
    assert our_verdict(calls) is None
