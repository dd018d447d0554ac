"""Pieces of output: the end of long streams first, then exactly what was added."""

from pathlib import Path

from windlass.backends.local.paths import StatePaths
from windlass.server.dashboard.log_view import read_log


def write(state: Path, name: str, text: str) -> None:
    folder = StatePaths(state).generation_logs("job-1", 1)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / name).open("a") as file:
        file.write(text)


def texts(piece: dict[str, list[list[object]]]) -> list[object]:
    return [line[3] for line in piece["lines"]]


def test_a_piece_follows_the_piece_before_without_gap_or_repetition(tmp_path: Path) -> None:
    paths = StatePaths(tmp_path)
    write(tmp_path, "0.out", "one\ntwo\nthr")
    first = read_log(paths, "job-1", None, None, {})
    assert texts(first) == ["one", "two"]
    write(tmp_path, "0.out", "ee\nfour\n")
    second = read_log(paths, "job-1", None, None, first["offsets"])
    assert texts(second) == ["three", "four"]
    assert texts(read_log(paths, "job-1", None, None, second["offsets"])) == []


def test_a_long_stream_begins_with_its_last_whole_lines(tmp_path: Path) -> None:
    write(tmp_path, "0.out", "".join(f"line {number:06}\n" for number in range(100_000)))
    found = texts(read_log(StatePaths(tmp_path), "job-1", None, None, {}))
    assert found[-1] == "line 099999"
    assert all(len(str(text)) == len("line 000000") for text in found)


def test_ranks_can_be_chosen_and_all_are_listed(tmp_path: Path) -> None:
    write(tmp_path, "0.out", "of rank 0\n")
    write(tmp_path, "3.err", "of rank 3\n")
    piece = read_log(StatePaths(tmp_path), "job-1", None, [3], {})
    assert (texts(piece), piece["ranks"]) == (["of rank 3"], [0, 3])


def test_a_job_without_output_has_an_empty_piece(tmp_path: Path) -> None:
    piece = read_log(StatePaths(tmp_path), "job-1", None, None, {})
    assert (piece["lines"], piece["attempts"]) == ([], [])
