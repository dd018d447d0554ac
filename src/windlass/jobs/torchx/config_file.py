"""The job of a `.torchxconfig`: its component with the defaults written there, and with options as of `torchx run`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from windlass.jobs.errors import InputError, Place, input_error
from windlass.jobs.imports.imported_job import ImportedJob, collect, imported_job
from windlass.jobs.imports.outcomes import Loss, Outcome, Setting
from windlass.jobs.syntax.names import JOB_NAME, NODE_NAME, did_you_mean, is_name
from windlass.jobs.syntax.text import Text
from windlass.jobs.torchx.components import OPTIONS, ComponentError, component_app
from windlass.jobs.torchx.role import job_fields

_SECTION = re.compile(r"\[([^\]\n]{0,100})\]\s*")
_OPTION = re.compile(r"([^=:#;\s][^=:]{0,99}?)\s*[=:]\s*(.*)")
_RUN = "cli:run"
_OWN = "windlass"
_COMMAND_LINE = "command line"
_DRY_RUN = "torchx run --dryrun -s windlass COMPONENT prints the job of any component"
_RENDEZVOUS = "the rendezvous is that of Windlass, with another port for each start"
_REASONS = {
    "mounts": "nothing is mounted on this machine; write volumes into pod",
    "debug": "write the variables into env",
    "tee": "the output of all ranks of a node is in its log",
    "rdzv_port": _RENDEZVOUS,
    "rdzv_backend": _RENDEZVOUS,
}
"""Option of a component → what becomes of it."""


@dataclass(frozen=True, slots=True)
class Section:
    """A section of the file: its options, each with its place."""

    place: Place
    options: dict[str, tuple[str, Place]] = field(default_factory=dict)


def is_config_file(text: Text) -> bool:
    """Tells whether a text is a `.torchxconfig`, by its name or its sections."""
    if text.source.endswith(".torchxconfig"):
        return True
    return re.search(r"^\[(cli:\w+|component:[^\]\n]+)\]\s*$", text.text, re.MULTILINE) is not None


def import_config(text: Text, arguments: Sequence[str]) -> ImportedJob:
    """The job of the component. `arguments`: as after `torchx run`: COMPONENT --option value -- words of the program.

    Raises InputError if no component is named, if it is not built in, or if it does not take an option.
    """
    sections = _read_sections(text)
    component, given, words = _split_arguments(arguments, sections)
    if component not in OPTIONS:
        known = f"windlass import knows {', '.join(OPTIONS)}; {_DRY_RUN}"
        named = f"the component {component[:60]} is not built in" if component else "no component is named"
        raise InputError([text.problem(f"{named}; {known}", _place_of(sections, _RUN, "component"))])
    defaults = sections.get(f"component:{component}", Section(Place(1, 1)))
    _check_options(text, component, defaults)
    options = {name: value for name, (value, _) in defaults.options.items() if value != "None"} | given
    try:
        app = component_app(component, options, words)
    except ComponentError as error:
        problem = f"{component} --{error.option} {error}"
        if error.option in given:
            raise input_error(_COMMAND_LINE, problem) from None
        place = defaults.options.get(error.option, ("", defaults.place))[1]
        raise InputError([text.problem(problem, place)]) from None
    fields = job_fields(app.name, [app.role])
    losses = [*_section_losses(sections, component), *_option_losses(defaults, given, app.name)]
    collect(_queue(sections), fields, losses)
    return imported_job(fields, losses)


def _read_sections(text: Text) -> dict[str, Section]:
    """Sections of the INI file. Raises InputError with the first line that is neither section, option nor comment."""
    found: dict[str, Section] = {}
    section: Section | None = None
    for number, line in enumerate(text.lines, 1):
        place = Place(number, 1, max(1, len(line)))
        if not line.strip() or line.lstrip().startswith(("#", ";")):
            continue
        if heading := _SECTION.fullmatch(line):
            section = found.setdefault(heading[1], Section(place))
        elif section is not None and (option := _OPTION.fullmatch(line.strip())):
            section.options[option[1]] = (option[2].strip(), place)
        else:
            problem = "expects [a section], or an option such as cpu = 4 below one"
            raise InputError([text.problem(problem, place)])
    return found


def _split_arguments(
    arguments: Sequence[str], sections: Mapping[str, Section]
) -> tuple[str, dict[str, str], list[str]]:
    """The component, its options, and the words of its program. The configured component is the default."""
    rest = list(arguments)
    component = sections[_RUN].options.get("component", ("", None))[0] if _RUN in sections else ""
    if rest and not rest[0].startswith("-"):
        component = rest.pop(0)
    given: dict[str, str] = {}
    while rest and rest[0].startswith("-") and rest[0] != "--":
        name, equals, value = rest.pop(0).lstrip("-").partition("=")
        if not equals and not rest:
            raise input_error(_COMMAND_LINE, f"--{name[:40]} expects a value")
        given[name] = value if equals else rest.pop(0)
        if component in OPTIONS and name not in OPTIONS[component]:
            meant = did_you_mean(name, OPTIONS[component])
            raise input_error(_COMMAND_LINE, f"{component} has no option --{name[:40]}{meant}")
    return component, given, rest[1:] if rest[:1] == ["--"] else rest


def _check_options(text: Text, component: str, section: Section) -> None:
    problems = [
        text.problem(f"{component} has no option {name[:40]!r}{did_you_mean(name, OPTIONS[component])}", place)
        for name, (_, place) in section.options.items()
        if name not in OPTIONS[component]
    ]
    if problems:
        raise InputError(problems)


def _place_of(sections: Mapping[str, Section], name: str, option: str) -> Place:
    section = sections.get(name, Section(Place(1, 1)))
    return section.options.get(option, ("", section.place))[1]


def _queue(sections: Mapping[str, Section]) -> Iterator[Outcome]:
    """The queue of Windlass's section, or of the selected scheduler's."""
    run = sections.get(_RUN, Section(Place(1, 1)))
    selected = run.options.get("scheduler", ("", run.place))[0]
    options = [sections[each].options for each in (_OWN, selected) if each in sections]
    for queue, place in [each["queue"] for each in options if "queue" in each][:1]:
        if is_name(NODE_NAME, queue):
            yield Setting("queue", queue)
        else:
            yield Loss(place, "queue", "the name of a queue has small letters, digits, dashes and dots; write queue")


def _section_losses(sections: Mapping[str, Section], component: str) -> Iterator[Loss]:
    for name, section in sections.items():
        if name == _RUN:
            for option, (value, place) in section.options.items():
                if option not in ("component", "scheduler") and value:
                    yield Loss(place, option, "run windlass submit where the code is; on a cluster --ship ships it")
        elif name.startswith("component:"):
            if name != f"component:{component}":
                yield Loss(section.place, f"[{name}]", "defaults of another component")
        elif set(section.options) - {"queue"} and name != _OWN:
            yield Loss(section.place, f"[{name}]", "options of another scheduler; write the fields of a job file")


def _option_losses(defaults: Section, given: Mapping[str, str], name: str) -> Iterator[Loss]:
    """Options of the component that the job has not, from the file or from the arguments."""
    places = {option: place for option, (_, place) in defaults.options.items()}
    for option, reason in _REASONS.items():
        if option in places or option in given:
            yield Loss(places.get(option, Place(1, 1)), option, reason)
    if ("name" in places or "name" in given) and not is_name(JOB_NAME, name):
        yield Loss(places.get("name", Place(1, 1)), "name", "a name has small letters, digits and dashes")
