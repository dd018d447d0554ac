"""Manual pages: `windlass(1)` and a page for each verb, from the commands that print the help and complete words.

A page has the sections that man-pages(7) names. The date is an argument, so that equal sources give equal pages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import windlass
from windlass.cli.entry import load_verb
from windlass.cli.exit_codes import MEANING
from windlass.cli.roff import bold, escape, filled, item, paragraphs, section, subsection, title, verbatim
from windlass.cli.verb_table import VERBS

_MANUAL = "Windlass Manual"
_SUMMARY = "gang-scheduled, fault-tolerant distributed training"
_OVERVIEW = (
    "Windlass queues a job until all of its nodes and GPUs are free, starts all ranks at once, and restarts the whole "
    "gang from its checkpoint when a rank is lost. It does so on one machine and on Kubernetes."
)


def man_pages(date: str) -> Iterator[tuple[str, str]]:
    """Yields the file name and the text of every page. `date` is that of the pages, as YYYY-MM-DD."""
    yield "windlass.1", _page("windlass", date, _SUMMARY, _overview())
    for verb, (_, summary) in VERBS.items():
        lowered = summary[0].lower() + summary[1:]
        yield f"windlass-{verb}.1", _page(f"windlass-{verb}", date, lowered, _verb_sections(verb))


def _page(name: str, date: str, summary: str, sections: Iterator[str]) -> str:
    head = title(name, date, f"Windlass {windlass.__version__}", _MANUAL)
    return "\n".join([head, section("NAME", [f"{escape(name)} \\- {escape(summary)}"]), *sections]) + "\n"


def _overview() -> Iterator[str]:
    yield section("SYNOPSIS", [f"{bold('windlass')} \\fIVERB\\fR [\\fIARGUMENTS\\fR]"])
    yield section(
        "DESCRIPTION", [filled(_OVERVIEW), f".PP\nEach verb has a page of its own, such as {_page_of('run')}."]
    )
    yield section("VERBS", [item(bold(verb), f"{summary}.") for verb, (_, summary) in VERBS.items()])
    yield section("EXIT STATUS", [item(bold(str(code.value)), text) for code, text in MEANING.items()])
    yield section("SEE ALSO", [",\n".join(_page_of(verb) for verb in VERBS)])


def _verb_sections(verb: str) -> Iterator[str]:
    command, name = load_verb(verb), f"windlass {verb}"
    yield section("SYNOPSIS", [_usage(command, name)])
    if not command.params and not _commands(command):
        yield section("DESCRIPTION", [verbatim(command.get_help(_context(command, name)))])  # of a parser of its own
    else:
        yield section("DESCRIPTION", [paragraphs(command.help)])
    for head, items in _parameter_lists(command):
        yield section(head.upper(), items)
    if commands := list(_nested_commands(command, name)):
        yield section("COMMANDS", [_subsection(each, whole) for whole, each in commands])
    yield section("EXIT STATUS", [f"The codes are those of {_page_of()}."])
    others = [each for each, (family, _) in VERBS.items() if family == VERBS[verb][0] and each != verb]
    yield section("SEE ALSO", [",\n".join([_page_of(), *(_page_of(each) for each in others)])])


def _subsection(command: Any, name: str) -> str:
    items = [each for _, found in _parameter_lists(command) for each in found]
    return subsection(name, [_usage(command, name), ".PP", paragraphs(command.help), *items])


def _usage(command: Any, name: str) -> str:
    """Name and arguments of a command, such as "windlass logs [OPTIONS] {job}"."""
    return f"{bold(name)} {escape(' '.join(command.collect_usage_pieces(_context(command, name))))}"


def _parameter_lists(command: Any) -> Iterator[tuple[str, Sequence[str]]]:
    """Yields the arguments and the options of a command with their help, as far as it has any."""
    context = _context(command, "windlass")
    found: dict[str, list[str]] = {"Arguments": [], "Options": []}
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None:
            kind = "Arguments" if parameter.param_type_name == "argument" else "Options"
            found[kind].append(item(bold(record[0]), record[1]))
    yield from ((kind, items) for kind, items in found.items() if items)


def _context(command: Any, name: str) -> Any:
    return command.context_class(command, info_name=name, **command.context_settings)


def _commands(command: Any) -> dict[str, Any]:
    """The commands of a group; {} of a verb without any."""
    return getattr(command, "commands", {})


def _nested_commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """The commands of a group and of the groups in it, with their whole names."""
    for sub, each in _commands(command).items():
        yield f"{name} {sub}", each
        yield from _nested_commands(each, f"{name} {sub}")


def _page_of(verb: str = "") -> str:
    """A reference to the page of a verb, or of `windlass` itself."""
    return f"{bold(f'windlass-{verb}' if verb else 'windlass')}(1)"
