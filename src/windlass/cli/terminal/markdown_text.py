"""Prints Markdown: rendered on a capable terminal, as its own source elsewhere."""

from __future__ import annotations

_MAX_WIDTH = 100


def print_markdown(text: str, *, paint: bool) -> None:
    """Prints a text of Markdown. `paint`: with styles, for a terminal."""
    if not paint:
        print(text.rstrip())
        return
    from rich.console import Console  # noqa: PLC0415 - its import takes longer than the rest of a verb
    from rich.markdown import Markdown  # noqa: PLC0415

    console = Console()
    console.width = min(console.width, _MAX_WIDTH)
    console.print(Markdown(text, code_theme="ansi_dark", hyperlinks=False))
