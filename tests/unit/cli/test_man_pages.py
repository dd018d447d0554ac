"""Manual pages: one per verb, with the options of its help, and without a complaint of the checkers of roff."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from windlass.cli import entry
from windlass.cli.man_pages import man_pages
from windlass.cli.roff import escape, filled
from windlass.cli.verb_table import VERBS


@pytest.fixture(scope="module")
def pages():
    return dict(man_pages("2026-11-27"))


def test_every_verb_has_a_page_and_the_overview_lists_it(pages):
    assert pages.keys() == {"windlass.1", *(f"windlass-{verb}.1" for verb in VERBS)}
    for verb, (_, summary) in VERBS.items():
        assert f".TP\n\\fB{verb}\\fR\n{escape(summary)}." in pages["windlass.1"]


def nested(command):
    for each in getattr(command, "commands", {}).values():
        yield from (each, *nested(each))


@pytest.mark.parametrize("verb", VERBS)
def test_a_page_has_every_option_of_the_help_of_its_verb(verb, pages):
    command = entry.load_verb(verb)
    commands = [command, *nested(command)]
    options = [each for found in commands for each in found.params if each.param_type_name == "option"]
    page = pages[f"windlass-{verb}.1"]
    for option in options:
        if not option.hidden:
            assert all(re.search(rf"\\fB.*{re.escape(escape(flag))}\b", page) for flag in option.opts), option
            assert filled(option.help).split("\n")[0] in page


def test_a_page_begins_with_title_name_synopsis_and_description(pages):
    page = pages["windlass-logs.1"]
    assert page.startswith('.TH "WINDLASS\\-LOGS" 1 "2026-11-27" "Windlass ')
    assert re.findall(r"^\.SH (.*)$", page, re.MULTILINE) == [
        "NAME", "SYNOPSIS", "DESCRIPTION", "ARGUMENTS", "OPTIONS", "EXIT STATUS", "SEE ALSO",
    ]  # fmt: skip


def test_a_line_that_looks_like_a_macro_is_text():
    assert escape(".so /etc/passwd\n'x \\n") == "\\&.so /etc/passwd\n\\&'x \\en"


@pytest.mark.skipif(not shutil.which("mandoc"), reason="mandoc is not installed: apt-get install mandoc")
def test_mandoc_has_no_warning(pages, tmp_path):
    files = written(pages, tmp_path)
    ran = subprocess.run(["mandoc", "-Tlint", "-Wwarning", *files], capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.returncode) == ("", 0)


@pytest.mark.skipif(not shutil.which("groff"), reason="groff is not installed: apt-get install groff-base")
def test_groff_has_no_warning(pages, tmp_path):
    command = ["groff", "-man", "-ww", "-K", "utf8", "-T", "utf8", "-z", *written(pages, tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.stderr, ran.returncode) == ("", 0)


def written(pages, folder):
    for name, text in pages.items():
        (folder / name).write_text(text)
    return sorted(folder.glob("*.1"))
