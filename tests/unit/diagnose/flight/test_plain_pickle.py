"""A dump is hostile input: plain data is loaded, and no instruction of another kind runs."""

import os
import pickle
import struct

import pytest

from windlass.diagnose.flight.plain_pickle import MAX_TUPLES, load_plain
from windlass.diagnose.flight.records import DumpError

DATA = {
    "texts": ["", "ä" * 300, "x" * 70_000],
    "numbers": [0, -1, 255, 65_536, 2**40, -(2**40), 1.5],
    "others": [True, False, None, b"bytes", (), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)],
}


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_plain_data_is_loaded(protocol: int) -> None:
    data = DATA if protocol > 2 else {**DATA, "others": ["no bytes: protocol 2 writes them as a call"]}
    assert load_plain(pickle.dumps(data, protocol)) == data


class Call:
    def __init__(self, function: object, *arguments: object) -> None:
        self.call = function, arguments

    def __reduce__(self) -> object:
        return self.call


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("function", [os.system, eval, os.mkdir, getattr])
def test_no_function_is_called(function: object, protocol: int, tmp_path) -> None:
    path = tmp_path / "proof"
    attack = pickle.dumps({"entries": [Call(function, str(path))]}, protocol)
    with pytest.raises(DumpError, match="may run code"):
        load_plain(attack)
    assert not path.exists()


OTHER_INSTRUCTIONS = {
    "a global": b"\x80\x02cos\nsystem\n.",
    "a global by the stack": b"\x80\x04\x8c\x02os\x8c\x06system\x93.",
    "an instance": b"\x80\x02(ios\nsystem\n.",
    "an extension": b"\x80\x02\x82\x01.",
    "a persistent id": b"\x80\x02X\x01\x00\x00\x00aQ.",
    "a state of an object": b"\x80\x02]}b.",
    "a bytearray of 1 TiB": b"\x80\x05\x96" + struct.pack("<Q", 1 << 40) + b".",
    "a memo of 4 billion entries": b"\x80\x02]r\xff\xff\xff\xff.",
    "an integer of 2 GiB": b"\x80\x02\x8b\xff\xff\xff\x7f.",
    "a text of numbers": b"\x80\x02I" + b"9" * 100_000 + b"\n.",
}


@pytest.mark.parametrize("attack", OTHER_INSTRUCTIONS.values(), ids=OTHER_INSTRUCTIONS)
def test_instructions_of_other_kinds_are_refused(attack: bytes) -> None:
    with pytest.raises(DumpError):
        load_plain(attack + b"padding of the file")


def test_a_nested_tuple_that_would_overflow_the_stack_is_refused() -> None:
    nested = b"\x80\x02})" + b"\x85" * 200_000 + b"Ns."
    with pytest.raises(DumpError, match=f"over {MAX_TUPLES}"):
        load_plain(nested)


def test_deep_lists_are_harmless() -> None:
    depth = 100_000
    load_plain(b"\x80\x02" + b"]" * depth + b"a" * (depth - 1) + b".")


def test_every_prefix_of_a_pickle_is_refused() -> None:
    whole = pickle.dumps({"entries": [{"name": "all_reduce", "size": (1, 2), "time": 2**62}]}, 2)
    for end in range(len(whole)):
        with pytest.raises(DumpError):
            load_plain(whole[:end])


@pytest.mark.parametrize(
    "broken", [b"\x80\x02.", b"\x80\x02u.", b"\x80\x02h\x05.", b"\x80\x02}]Ns.", b"\x80\x02(.", b"\x80\x63N."]
)
def test_instructions_without_operands_are_refused(broken: bytes) -> None:
    with pytest.raises(DumpError, match="no valid pickle"):
        load_plain(broken)
