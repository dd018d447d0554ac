"""Logs of any bytes are read as blocks of whole lines, in bounded memory, and the gaps are named."""

import gzip
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.diagnose.failures.log_blocks import LogBlock, LogGaps, read_blocks


def read(content: bytes) -> tuple[list[LogBlock], LogGaps]:
    gaps = LogGaps()
    return list(read_blocks(io.BytesIO(content), gaps)), gaps


def text_of(content: bytes) -> bytes:
    return b"".join(block.text for block in read(content)[0])


def test_blocks_carry_the_number_of_their_first_line() -> None:
    line = b"x" * 99 + b"\n"
    blocks, _ = read(line * 10_000)
    assert len(blocks) > 1
    assert [block.first_line for block in blocks] == [
        1 + sum(before.text.count(b"\n") for before in blocks[:number]) for number in range(len(blocks))
    ]


def test_a_gzip_file_of_several_members_is_decompressed() -> None:
    assert text_of(gzip.compress(b"one\n") + gzip.compress(b"two\n")) == b"one\ntwo\n"


@pytest.mark.parametrize("cut", [20, 200, 2_000])
def test_of_a_truncated_gzip_file_the_start_is_read_and_the_gap_named(cut: int) -> None:
    lines = b"".join(b"line %d of the log\n" % number for number in range(5_000))
    blocks, gaps = read(gzip.compress(lines)[:cut])
    assert lines.startswith(b"".join(block.text for block in blocks))
    assert gaps.sentences("a.gz") == ["a.gz: the compressed file is truncated or damaged; what precedes it was read"]


def test_a_compressed_file_that_grows_without_measure_is_read_in_part() -> None:
    blocks, gaps = read(gzip.compress(b"\0" * (64 << 20)))
    assert gaps.is_oversized
    assert blocks == []


def test_utf_16_is_read_as_text() -> None:
    assert text_of("Fehler: größer\n".encode("utf-16")) == "Fehler: größer\n".encode()


def test_nul_bytes_of_a_truncated_log_are_left_out() -> None:
    assert text_of(b"\0" * 1000 + b"one\n\0two\n") == b"one\ntwo\n"


def test_a_binary_file_is_not_read() -> None:
    blocks, gaps = read(bytes(range(256)) * 100)
    assert blocks == []
    assert gaps.is_binary


def test_a_line_without_an_end_is_cut_and_the_next_lines_keep_their_numbers() -> None:
    blocks, gaps = read(b"a\n" + b"x" * 3_000_000 + b"\nlast\n")
    assert gaps.long_lines == 1
    assert sum(len(block.text) for block in blocks) < 500_000
    assert b"".join(block.text for block in blocks).split(b"\n")[2] == b"last"


def test_a_progress_bar_of_megabytes_in_one_line_is_read_in_pieces() -> None:
    blocks, gaps = read(b"\r".join(b"%d %%" % number for number in range(500_000)) + b"\nlast\n")
    assert gaps.long_lines == 0
    assert len(blocks) > 1
    assert {block.first_line for block in blocks} == {1}


def test_an_error_of_the_disk_is_a_gap() -> None:
    class Broken(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:  # noqa: ARG002 - as of every stream
            raise OSError(5, "Input/output error")

    gaps = LogGaps()
    assert list(read_blocks(Broken(), gaps)) == []
    assert gaps.sentences("log") == ["log: reading failed (Input/output error); what precedes it was read"]


@given(st.binary(max_size=4_000) | st.binary(max_size=2_000).map(gzip.compress))
def test_no_bytes_make_the_reader_fail(content: bytes) -> None:
    blocks, _ = read(content)
    assert sum(len(block.text) for block in blocks) <= 4 * len(content) + 4_000
