"""Findings of dumps in the structure of torch's NCCL recorder: each test is one way in which ranks wait."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded_calls import BEGIN_NS, DEFAULT, call, dumps_of

from windlass.diagnose.flight.analysis import FlightReport, analyse_dumps
from windlass.diagnose.flight.findings import HangFinding

PIPELINE = ("3", "mesh_pp")
DATA = ("4", "mesh_dp")


def report_of(calls: Mapping[int, Sequence[Mapping[str, Any]]], **options: Any) -> FlightReport:
    return analyse_dumps(dumps_of(calls, **options))


def only(report: FlightReport) -> HangFinding:
    (finding,) = report.findings
    return finding


def steps(count: int) -> list[dict[str, Any]]:
    return [call("all_reduce", number) for number in range(1, count + 1)]


# --- a rank that is missing ---------------------------------------------------------------------------


def test_the_rank_that_did_not_enter_the_collective_of_the_others_is_named() -> None:
    waits = call("all_reduce", 4, state="started", at="train.py:42 in backward")
    finding = only(report_of({0: [*steps(3), waits], 1: [*steps(3), waits], 2: steps(3), 3: [*steps(3), waits]}))
    assert finding.rule == "flight-missing-rank"
    assert (finding.ranks, finding.waiting) == ((2,), (0, 1, 3))
    assert finding.values["op"] == "all_reduce"
    assert finding.values["seq"] == "4"
    assert finding.values["place"] == "train.py:42 in backward"
    assert finding.values["last"] == "all_reduce number 3 of group default_pg, completed, at train.py:10 in step"
    assert finding.text == (
        "flight recorder: rank 2 did not enter all_reduce, number 4 of group default_pg (nccl), called at "
        "train.py:42 in backward; waiting: rank 0, 1, 3; last operation of rank 2: all_reduce number 3 of group "
        "default_pg, completed, at train.py:10 in step; its stack: not known"
    )


def test_of_ranks_that_are_behind_the_last_one_is_blamed() -> None:
    def at(number: int) -> list[dict[str, Any]]:
        return [*steps(3), *(call("all_reduce", each, state="scheduled") for each in range(4, number + 1))]

    finding = only(report_of({0: at(7), 1: at(5), 2: steps(3), 3: at(7)}))
    assert (finding.ranks, finding.values["seq"]) == ((2,), "4")


def test_ranks_that_have_not_called_anything_are_missing_at_the_first_collective() -> None:
    first = call("broadcast", 1, state="started")
    finding = only(report_of({0: [first], 1: [], 2: [first], 3: []}))
    assert (finding.ranks, finding.values["last"]) == ((1, 3), "none")


def test_a_rank_that_is_missing_because_it_waits_in_another_group_is_not_blamed() -> None:
    groups = {PIPELINE: [0, 1], DATA: [1, 3], DEFAULT: [0, 1, 2, 3]}
    report = report_of(
        {
            0: [call("all_reduce", 1, group=PIPELINE, state="started")],
            1: [call("all_gather", 1, group=DATA, state="started")],  # it is missing in the group of rank 0
            2: [],
            3: [],  # it is missing in the group of rank 1
        },
        groups=groups,
    )
    finding = only(report)
    assert (finding.ranks, finding.waiting, finding.values["group"]) == ((3,), (1,), "mesh_dp (nccl)")


def test_ranks_that_wait_for_each_other_in_two_groups_are_one_finding() -> None:
    groups = {PIPELINE: [0, 1], DATA: [0, 1]}
    finding = only(
        report_of(
            {
                0: [call("all_reduce", 1, group=PIPELINE, state="started", at="a.py:1 in one")],
                1: [call("all_gather", 1, group=DATA, state="started", at="b.py:2 in two")],
            },
            groups=groups,
        )
    )
    assert finding.rule == "flight-crossed-groups"
    assert "waits in all_reduce of group mesh_pp (nccl), called at a.py:1 in one, for rank 1" in finding.text
    assert finding.text.endswith("which waits in all_gather of group mesh_dp (nccl), called at b.py:2 in two")


def test_ranks_that_call_many_collectives_ahead_still_wait_in_the_first() -> None:
    ahead = [*steps(1), *(call("all_reduce", number, state="scheduled") for number in range(2, 9))]
    finding = only(report_of({0: ahead, 1: steps(1), 2: ahead}))
    assert (finding.ranks, finding.values["seq"]) == ((1,), "2")


# --- ranks that call different things -----------------------------------------------------------------


def test_another_operation_under_the_same_number_is_a_divergence() -> None:
    usual = [*steps(2), call("all_reduce", 3, state="started", at="train.py:30 in step")]
    other = [*steps(2), call("broadcast", 3, state="started", at="eval.py:7 in evaluate")]
    finding = only(report_of({0: usual, 1: other, 2: usual}))
    assert finding.rule == "flight-divergent-collectives"
    assert finding.ranks == (1,)
    assert finding.values["how"] == "operation"
    assert finding.values["call"] == "broadcast [8] Float at eval.py:7 in evaluate"
    assert finding.values["other"] == "all_reduce [8] Float at train.py:30 in step"


def test_two_collectives_in_another_order_are_named_so() -> None:
    def order(*names: str) -> list[dict[str, Any]]:
        return [call(name, number, state="scheduled") for number, name in enumerate(names, 1)]

    finding = only(report_of({0: order("all_reduce", "barrier"), 1: order("barrier", "all_reduce")}))
    assert (finding.ranks, finding.values["how"]) == ((1,), "order")


def test_another_size_is_a_divergence_unless_the_collective_allows_it() -> None:
    def sized(name: str, size: int) -> list[dict[str, Any]]:
        return [call(name, 1, sizes=(size,), state="started")]

    finding = only(report_of({0: sized("all_reduce", 8), 1: sized("all_reduce", 8), 2: sized("all_reduce", 4)}))
    assert (finding.ranks, finding.values["how"]) == ((2,), "size")
    allowed = report_of({0: sized("all_to_all", 8), 1: sized("all_to_all", 4)})
    assert [each.rule for each in allowed.findings] == ["flight-stalled-collective"]


def test_another_shape_of_the_same_size_is_no_divergence() -> None:
    report = report_of({0: [call(sizes=(2, 4), state="started")], 1: [call(sizes=(8,), state="started")]})
    assert [each.rule for each in report.findings] == ["flight-stalled-collective"]


def test_another_type_is_a_divergence() -> None:
    finding = only(report_of({0: [call(state="started")], 1: [call(state="started", dtype="Half")]}))
    assert (finding.rule, finding.values["how"]) == ("flight-divergent-collectives", "type")


def test_sizes_of_a_collective_that_completed_everywhere_are_not_compared() -> None:
    assert report_of({0: [call(sizes=(8,))], 1: [call(sizes=(4,))]}).findings == []


# --- a transport that stalls, and missing dumps -------------------------------------------------------


def test_a_collective_that_all_ranks_entered_and_some_did_not_complete_is_stalled() -> None:
    begun = [*steps(2), call("all_reduce", 3, state="started")]
    finding = only(report_of({0: begun, 1: steps(3), 2: begun}))
    assert (finding.rule, finding.ranks, finding.values["waiting"]) == ("flight-stalled-collective", (), "0, 2")


def test_a_stall_of_another_group_is_behind_the_missing_rank() -> None:
    groups = {DATA: [0, 1], DEFAULT: [0, 1, 2]}
    behind = call("all_gather", 1, group=DATA, state="scheduled")
    waits = call("all_reduce", 1, state="started")
    finding = only(report_of({0: [waits, behind], 1: [waits, behind], 2: []}, groups=groups))
    assert (finding.rule, finding.ranks) == ("flight-missing-rank", (2,))


def test_a_rank_without_a_dump_is_suspected_where_all_others_wait() -> None:
    waits = [*steps(2), call("all_reduce", 3, state="started")]
    report = report_of({0: waits, 1: waits}, groups={DEFAULT: [0, 1, 2, 3]})
    finding = only(report)
    assert (finding.rule, finding.ranks) == ("flight-rank-without-dump", (2, 3))
    assert report.gaps == ["flight recorder: no dump of rank 2, 3"]


def test_a_job_that_runs_has_no_finding() -> None:
    assert report_of({rank: steps(5) for rank in range(4)}) == FlightReport([], [])


def test_a_wait_of_milliseconds_is_no_finding() -> None:
    dumps = dumps_of({0: [*steps(3), call("all_reduce", 4, state="started", after_s=9.99)], 1: steps(3)})
    running = [replace(dump, written_ns=BEGIN_NS + 10 * 10**9) for dump in dumps]
    hanging = [replace(dump, written_ns=BEGIN_NS + 20 * 10**9) for dump in dumps]
    assert analyse_dumps(running).findings == []
    assert only(analyse_dumps(hanging)).ranks == (1,)


# --- a full buffer ------------------------------------------------------------------------------------


def test_nothing_is_concluded_from_entries_that_a_full_buffer_has_lost() -> None:
    waits = [call("all_reduce", 1, state="started")]
    others = [call("all_gather", number, group=DATA) for number in range(50, 60)]
    report = report_of({0: waits, 1: others}, groups={DEFAULT: [0, 1], DATA: [1]}, lost={1: 400})
    assert report.findings == []
    (gap,) = report.gaps
    assert gap.startswith(
        "flight recorder: the buffer of rank 1 was full, and no entry of group default_pg (nccl) is left"
    )


def test_full_buffers_are_compared_where_they_overlap() -> None:
    def window(first: int, end: int, *more: dict[str, Any]) -> list[dict[str, Any]]:
        return [*(call("all_reduce", number) for number in range(first, end)), *more]

    waits = call("all_reduce", 1010, state="started")
    report = report_of(
        {0: window(990, 1010, waits), 1: window(980, 1010), 2: window(990, 1010, waits)}, lost={0: 9, 1: 8, 2: 9}
    )
    assert (only(report).ranks, only(report).values["seq"]) == ((1,), "1010")


def test_the_oldest_coalesced_call_of_a_full_buffer_may_lack_operations() -> None:
    def coalesced(number: int, count: int) -> list[dict[str, Any]]:
        return [*(call("all_gather", number) for _ in range(count)), call("coalesced", number)]

    whole = [*coalesced(7, 3), *coalesced(8, 3)]
    assert report_of({0: whole, 1: whole[2:]}, lost={0: 30, 1: 32}).findings == []


# --- sends and receives -------------------------------------------------------------------------------


def transfers(*names: str, state: str = "completed") -> list[dict[str, Any]]:
    return [call(name, number, group=PIPELINE, state=state) for number, name in enumerate(names, 1)]


def test_a_receive_without_its_send_names_the_rank_that_did_not_send() -> None:
    groups = {PIPELINE: [4, 5]}
    receives = [*transfers("recv 1<-0"), call("recv 1<-0", 2, group=PIPELINE, state="started", at="pp.py:5 in forward")]
    finding = only(report_of({4: transfers("send 0->1"), 5: receives}, groups=groups))
    assert finding.rule == "flight-unmatched-transfer"
    assert (finding.ranks, finding.waiting) == ((4,), (5,))
    assert finding.text == (
        "flight recorder: rank 5 waits in recv of group mesh_pp (nccl), called at pp.py:5 in forward; "
        "no send of rank 4; last operation of rank 4: send number 1 of group mesh_pp, completed, at train.py:10 in "
        "step; its stack: not known"
    )


def test_a_chain_of_stages_that_wait_ends_at_the_rank_that_waits_for_none() -> None:
    groups = {PIPELINE: [0, 1, 2]}
    waits = {0: transfers("recv 0<-1", state="started"), 1: transfers("recv 1<-2", state="started"), 2: []}
    assert only(report_of(waits, groups=groups)).ranks == (2,)


def test_two_ranks_that_both_receive_first_wait_for_each_other() -> None:
    groups = {PIPELINE: [0, 1]}
    calls = {0: transfers("recv 0<-1", state="started"), 1: transfers("recv 1<-0", state="started")}
    assert only(report_of(calls, groups=groups)).rule == "flight-crossed-groups"


def test_operations_of_a_coalesced_call_have_the_state_of_its_end() -> None:
    def batch(*names: str) -> list[dict[str, Any]]:  # torch never updates the state of the single operations
        parts = [call(name, 1, group=PIPELINE, state="scheduled") for name in names]
        return [*parts, call("coalesced", 1, group=PIPELINE, is_p2p=True)]

    groups = {PIPELINE: [0, 1]}
    assert report_of({0: batch("send 0->1"), 1: batch("recv 1<-0")}, groups=groups).findings == []


# --- any dumps ----------------------------------------------------------------------------------------

GROUPS = {DEFAULT: [0, 1, 2], PIPELINE: [1, 2], DATA: [0, 2]}
NAMES = ("all_reduce", "broadcast", "coalesced", "send 0->1", "recv 1<-0", "send 7->9", "recv 5<-5")
any_call = st.builds(
    call,
    st.sampled_from(NAMES),
    st.integers(-2, 4),
    state=st.sampled_from(["scheduled", "started", "completed", ""]),
    sizes=st.lists(st.integers(-1, 3), max_size=2),
    dtype=st.sampled_from(["Float", "Half"]),
    group=st.sampled_from([*GROUPS, ("9", "undefined"), ("", "")]),
    is_p2p=st.booleans(),
)


@settings(deadline=None)
@given(
    st.dictionaries(st.integers(0, 3), st.lists(any_call, max_size=6), max_size=4),
    st.dictionaries(st.integers(0, 3), st.integers(0, 9)),
)
def test_any_dumps_have_a_report_whose_lines_fire_their_own_rules(
    calls: dict[int, list[dict[str, Any]]], lost: dict[int, int]
) -> None:
    report = analyse_dumps(dumps_of(calls, groups=GROUPS, lost=lost), expected_ranks=4)
    for finding in report.findings:
        found = [match for pattern in RULES[finding.rule] if (match := re.search(pattern, finding.text))]
        assert found, finding.text
        assert found[0].groupdict() == {name: finding.values[name] for name in found[0].groupdict()}


TABLE = yaml.safe_load((files("windlass.diagnose") / "rules" / "flight.yaml").read_text(encoding="utf-8"))
RULES = {rule["id"]: rule["signatures"] for rule in TABLE}
