"""Text, fonts, sections and lists in roff with the macros of man(7)."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

_LINE_CHARACTERS = 78


def escape(text: str) -> str:
    """Text that roff prints as it is: backslashes, dashes, and dots and quotes at the begin of a line."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join(f"\\&{line}" if line.startswith((".", "'")) else line for line in escaped.split("\n"))


def bold(text: str) -> str:
    """Text in bold, as options and names of programs are."""
    return f"\\fB{escape(text)}\\fR"


def title(name: str, date: str, source: str, manual: str) -> str:
    """The first lines of a page of section 1. `source`: name and version of the package."""
    return f'.TH "{escape(name.upper())}" 1 "{date}" "{escape(source)}" "{escape(manual)}"\n.ad l'


def section(name: str, parts: Iterable[str]) -> str:
    """A section with its parts, each of which begins with a macro or is text."""
    return "\n".join([f".SH {name}", *parts])


def subsection(name: str, parts: Iterable[str]) -> str:
    """A subsection with its parts."""
    return "\n".join([f'.SS "{escape(name)}"', *parts])


def paragraphs(text: str) -> str:
    """The paragraphs of a text, which empty lines separate; the lines of each are filled anew."""
    return "\n.PP\n".join(filled(part) for part in text.split("\n\n") if part.strip())


def item(head: str, text: str) -> str:
    """An entry of a list: a head in roff on its own line, the text indented below."""
    return f".TP\n{head}\n{filled(text)}"


def filled(text: str) -> str:
    """Text in lines of at most 80 characters, as roff's checkers want them."""
    return escape(
        textwrap.fill(" ".join(text.split()), _LINE_CHARACTERS, break_long_words=False, break_on_hyphens=False)
    )


def verbatim(text: str) -> str:
    """Lines that keep their breaks and their indentation."""
    return f".nf\n{escape(text.strip())}\n.fi"
