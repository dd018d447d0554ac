"""Reading of files that the supervisor's `LogWriter` writes: across parts, from a time on, and while they grow."""

from __future__ import annotations

from pathlib import Path

import pytest

from windlass.backends.local.logs import LogCursor, LogFile, generations, log_files, read_lines
from windlass.backends.local.paths import StatePaths
from windlass.backends.local.supervisor import log_files as supervisor_logs


class WrittenStream:
    """A stream of a rank; `write` takes the time of the output."""

    def __init__(self, root: Path, rank: int = 0, *, part_bytes: int = 100, parts: int = 3) -> None:
        self.now = 1_000
        path = StatePaths(root).generation_logs("job-1", 1) / f"{rank}.out"
        self.file = LogFile("job-1", 1, rank, "out", path)
        self.writer = supervisor_logs.LogWriter(
            str(path), supervisor_logs.LogLimits(part_bytes, parts), lambda: self.now
        )

    def write(self, text: str, at: int = 0) -> None:
        self.now = at or self.now
        self.writer.write(text.encode())


def texts(*ranks: WrittenStream, since: int | None = None) -> list[str]:
    return [line.text for line in read_lines([rank.file for rank in ranks], since=since)]


def test_lines_have_the_time_at_which_they_were_printed(tmp_path):
    rank = WrittenStream(tmp_path)
    rank.write("one\n", at=1_000)
    rank.write("two\nthr", at=5_000)
    rank.write("ee\n", at=9_000)
    assert [(line.at, line.text) for line in read_lines([rank.file])] == [
        (1_000, "one"),
        (5_000, "two"),
        (5_000, "three"),
    ]


def test_a_line_may_continue_in_the_next_part(tmp_path):
    rank = WrittenStream(tmp_path, part_bytes=10)
    rank.write("0123456\nabcdefgh\nlast")
    assert texts(rank) == ["0123456", "abcdefgh", "last"]
    assert sorted(file.name for file in rank.file.path.parent.iterdir()) == [
        "0.out",
        "0.out.1",
        "0.out.1.idx",
        "0.out.2",
        "0.out.2.idx",
        "0.out.idx",
    ]


def test_parts_removed_by_rotation_are_missing_and_the_others_are_complete(tmp_path):
    rank = WrittenStream(tmp_path, part_bytes=10, parts=2)
    for number in range(10):
        rank.write(f"line {number:04}\n")
    assert texts(rank) == ["line 0008", "line 0009"]


@pytest.mark.parametrize(
    ("since", "expected"),
    [(0, ["a", "b", "c", "d"]), (2_000, ["b", "c", "d"]), (2_500, ["c", "d"]), (4_000, ["d"]), (9_999, [])],
)
def test_lines_are_read_since_a_time_in_any_part(tmp_path, since, expected):
    rank = WrittenStream(tmp_path, part_bytes=4)
    for at, text in ((1_000, "a"), (2_000, "b"), (3_000, "c"), (4_000, "d")):
        rank.write(text + "\n", at=at)
    assert texts(rank, since=since) == expected


def test_several_ranks_are_merged_by_time(tmp_path):
    ranks = [WrittenStream(tmp_path, 0), WrittenStream(tmp_path, 1)]
    for at, (rank, text) in enumerate([(0, "a\n"), (1, "b\n"), (1, "c\n"), (0, "d\n")], start=1):
        ranks[rank].write(text, at=at * 1_000)
    assert texts(*ranks) == ["a", "b", "c", "d"]


def test_a_cursor_follows_rotations_without_losing_or_repeating_lines(tmp_path):
    rank = WrittenStream(tmp_path, part_bytes=16, parts=3)
    cursor = LogCursor(rank.file)
    seen: list[str] = []
    for number in range(30):
        rank.write(f"line {number}\n", at=1_000 + 100 * number)
        seen += [line.text for line in cursor.poll()]
    while more := cursor.poll():
        seen += [line.text for line in more]
    cursor.close()
    assert seen == [f"line {number}" for number in range(30)]


def test_a_cursor_waits_for_the_end_of_a_line_and_for_the_file_itself(tmp_path):
    rank = WrittenStream(tmp_path)
    cursor = LogCursor(rank.file)
    assert cursor.poll() == []
    rank.write("unfinished")
    assert cursor.poll() == []
    rank.write(" and ended\r\nnext")
    assert [line.text for line in cursor.poll()] == ["unfinished and ended"]
    assert [line.text for line in cursor.rest()] == ["next"]
    assert cursor.rest() == []
    cursor.close()


def test_bytes_that_are_no_text_and_lines_without_end_are_returned_in_pieces(tmp_path):
    rank = WrittenStream(tmp_path, part_bytes=1 << 22)
    rank.writer.write(b"\xff\xfe\n" + b"x" * (3 << 20))
    lines = texts(rank)
    assert lines[0] == "\N{REPLACEMENT CHARACTER}" * 2
    assert sum(map(len, lines[1:])) == 3 << 20
    assert max(map(len, lines)) <= (1 << 20) + (1 << 18)


def test_files_are_found_by_generation_rank_and_stream(tmp_path):
    paths = StatePaths(tmp_path)
    assert generations(paths, "job-1") == []
    assert log_files(paths, "job-1", 1) == []
    for generation, name in ((1, "0.out"), (1, "10.out"), (1, "2.err"), (1, "2.out"), (1, "2.out.idx"), (12, "0.out")):
        file = paths.generation_logs("job-1", generation) / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    assert generations(paths, "job-1") == [1, 12]
    assert [(f.rank, f.stream) for f in log_files(paths, "job-1", 1)] == [
        (0, "out"),
        (2, "out"),
        (2, "err"),
        (10, "out"),
    ]
    assert [(f.rank, f.stream) for f in log_files(paths, "job-1", 1, ranks=[2], streams=("err",))] == [(2, "err")]
