"""Lines of pods with the kubelet's times: what is cut or has no time is left out."""

from windlass.server.operator.dashboard.live_logs import TimedLine, new_lines, parse_lines

SECOND = 1_764_219_600_000_000
RAW = (
    b"9Z cut\n"
    b"2025-11-27T05:00:00Z first\n"
    b"2025-11-27T05:00:00.000123456Z \xff second\n"
    b"2025-13-27T05:00:00Z no month\n"
    b"plain\n"
)


def test_lines_have_the_time_of_the_kubelet() -> None:
    assert parse_lines(RAW) == [TimedLine(SECOND, "first"), TimedLine(SECOND + 123, "\ufffd second")]
    assert parse_lines(b"") == []


def test_a_page_gets_each_line_once() -> None:
    lines = parse_lines(RAW)
    found, offset = new_lines(lines, 3, 0)
    assert [line[1:] for line in found] == [[3, "out", "first"], [3, "out", "\ufffd second"]]
    assert new_lines(lines, 3, offset) == ([], offset)
    assert new_lines([], 3, 7) == ([], 7)
