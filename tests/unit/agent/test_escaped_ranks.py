"""Output of ranks that an agent prints with a prefix: it cannot forge or hide prefixes."""

from __future__ import annotations

import pytest

from windlass.agent.ranks.output import _add_prefix


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (b"plain\nlines\n", b"[d0]:plain\n[d0]:lines\n"),
        (b"\x1b[31mred\x1b[0m\n", b"[d0]:\x1b[31mred\x1b[0m\n"),
        (b"\x1b[2J\x1b]0;t\x07\n", b"[d0]:\\u001b[2J\\u001b]0;t\\u0007\n"),
        (b"loss 1\r[d1]:forged\n", b"[d0]:[d1]:forged\n"),
        ("\u009b2J\u202egrö\u2028ße\n".encode(), "[d0]:\\u009b2J\\u202egrö\\u2028ße\n".encode()),
        (b"\xff\xfe latin\n", b"[d0]:\xff\xfe latin\n"),
        (b"", b""),
    ],
)
def test_each_line_has_one_prefix_and_no_controls(text, shown):
    assert _add_prefix(b"[d0]:", text) == shown


def test_output_without_a_prefix_is_as_it_was_written():
    assert _add_prefix(b"", b"\x1b[2J\r") == b"\x1b[2J\r"
