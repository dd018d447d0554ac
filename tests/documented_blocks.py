"""Blocks of the guide to tutorial errors, each by the comment above it: tests run what the page shows."""

import re
from pathlib import Path

_PAGE = Path(__file__).parents[1] / "docs/guides/tutorial-errors.md"
_BLOCK = re.compile(r"^<!-- ([^\n]+) -->\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = dict(_BLOCK.findall(_PAGE.read_text(encoding="utf-8")))
