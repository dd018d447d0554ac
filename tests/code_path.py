"""Traces the path on which one thing, such as a gang, goes through the code, and counts what a reader must open.

A place is a function of `src/windlass` that hands the thing on: it calls, directly or through others, one of the named
functions at which the thing goes on to its next stage. Without such names, a place is a function that calls another
function with the thing in a variable. A leaf, which is read by its name, is no place. Properties, lambdas,
comprehensions and generated code (dataclass constructors) are no places either: their calls count as calls of the
function that contains them.
"""

from __future__ import annotations

import ast
import asyncio
import sys
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from dis import opname
from functools import cache
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from pathlib import Path
from types import CodeType, FrameType

import windlass

_ROOT = str(Path(windlass.__file__).parent)
_PAUSES = CO_COROUTINE | CO_GENERATOR | CO_ASYNC_GENERATOR
"""Flags of functions that return to their caller more than once."""
_ORIGIN_DEPTH = 12
"""Number of frames that asyncio keeps of the place at which a task's coroutine was made."""
_EVENT_LOOP = ("_run", "asyncio/events.py")


@dataclass(eq=False, slots=True)
class _Call:
    """One call of a function. `names`: its variables and fields that carried the thing."""

    code: CodeType
    parent: _Call | None
    names: set[str] = field(default_factory=set)
    is_carrier: bool = False
    is_place: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """A function that a reader of the path must open."""

    module: str
    function: str

    def __str__(self) -> str:
        return f"{self.module}.{self.function}"


class CodePath:
    """The calls of `src/windlass` in the order in which they began, and the counts over them."""

    def __init__(self, is_on_path: Callable[[object], bool], hand_overs: Collection[str]) -> None:
        self._is_on_path, self._hand_overs = is_on_path, hand_overs
        self._calls: list[_Call] = []
        self._running: dict[int, tuple[_Call, FrameType | None]] = {}
        """By id of a frame: its call, and the frame itself where it may pause: its id must not be used again."""
        self._is_over = False

    def begin(self) -> None:
        """Begins the path now: of the functions that were called before only those that still run are on it."""
        running = {id(call) for call, _ in self._running.values()}
        self._calls = [call for call in self._calls if id(call) in running]

    def end(self) -> None:
        """Ends the path: functions that are called from now on are not on it."""
        self._is_over = True

    @property
    def missed(self) -> set[str]:
        """The hand-overs that were not called."""
        return set(self._hand_overs) - {call.code.co_qualname for call in self._calls}

    @property
    def places(self) -> list[Place]:
        """The places in the order in which they first hand the thing on, each after its caller."""
        return list(self._names_by_place())

    @property
    def modules(self) -> list[str]:
        """The modules of the places, in their order."""
        return list(dict.fromkeys(place.module for place in self.places))

    @property
    def returns(self) -> int:
        """The number of times that the places, in their order, enter a module that they had left before."""
        entered = [place.module for place in self.places]
        visits = [each for each, before in zip(entered, [None, *entered], strict=False) if each != before]
        return len(visits) - len(set(visits))

    @property
    def names(self) -> set[str]:
        """The names of parameters, local variables and fields that carry the thing in the places."""
        return {name for names in self._names_by_place().values() for name in names}

    def __repr__(self) -> str:
        counts = f"{len(self.places)} places, {len(self.modules)} modules, {self.returns} returns"
        lines = [f"{place}  ({', '.join(sorted(names))})" for place, names in self._names_by_place().items()]
        return "\n".join([f"{counts}, {len(self.names)} names: {', '.join(sorted(self.names))}", *lines])

    def _names_by_place(self) -> dict[Place, set[str]]:
        for call in reversed(self._calls):  # a caller precedes the functions that it calls
            if call.parent is not None and (call.is_place or self._is_leaf(call)):
                call.parent.is_place |= call.parent.code is not call.code
        found: dict[Place, set[str]] = {}
        for call in self._calls:
            if self._is_leaf(call):
                for each in reversed(list(_with_callers(call))):
                    if each.is_place:
                        found.setdefault(_place(each.code), set()).update(each.names)
        return found

    def _is_leaf(self, call: _Call) -> bool:
        """Tells whether a call is on the path whatever it calls."""
        return call.code.co_qualname in self._hand_overs if self._hand_overs else call.is_carrier

    # --- events of the interpreter --------------------------------------------------------------------

    def profile(self, frame: FrameType, event: str, _arg: object) -> None:
        """Notes that a function begins, continues, pauses or ends."""
        if not frame.f_code.co_filename.startswith(_ROOT):
            return
        if event == "call" and id(frame) not in self._running and not self._is_over and _is_function(frame.f_code):
            pauses = bool(frame.f_code.co_flags & _PAUSES)
            call = _Call(frame.f_code, self._caller(frame))
            self._calls.append(call)
            self._running[id(frame)] = call, frame if pauses else None
        if event in ("call", "return") and id(frame) in self._running:
            call, kept = self._running[id(frame)]
            self._note_names(call, frame)
            if event == "return" and (kept is None or not _is_paused(frame)):
                del self._running[id(frame)]

    def _note_names(self, call: _Call, frame: FrameType) -> None:
        variables = {name: value for name, value in frame.f_locals.items() if not name.startswith("@")}
        for name, value in variables.items():
            if self._is_on_path(value):
                call.is_carrier = True
                call.names.update([name] if name != "self" else [])
            call.names.update(field for field in _fields(value, call.code) if self._is_on_path(getattr(value, field)))
        call.is_carrier |= bool(call.names)

    def _caller(self, frame: FrameType) -> _Call | None:
        above = frame.f_back
        while above is not None:
            if id(above) in self._running:
                return self._running[id(above)][0]
            if above.f_code.co_name == _EVENT_LOOP[0] and above.f_code.co_filename.endswith(_EVENT_LOOP[1]):
                return self._maker_of_task()
            above = above.f_back
        return None

    def _maker_of_task(self) -> _Call | None:
        """The call that made the coroutine of the present task."""
        task = asyncio.current_task()
        for file, line, name in getattr(task.get_coro(), "cr_origin", None) or () if task is not None else ():
            for call in reversed(self._calls):
                code = call.code
                if (code.co_filename, code.co_name) == (file, name) and line in {at for *_, at in code.co_lines()}:
                    return call
        return None


@contextmanager
def trace_path(is_on_path: Callable[[object], bool], hand_overs: Collection[str] = ()) -> Iterator[CodePath]:
    """Traces what runs inside of the `with`, in this thread and in threads that start there.

    `is_on_path` tells whether a value is the thing that is followed, such as a gang, its pod or its state.
    `hand_overs`: qualified names of functions, such as "Turn.add_state", by which the thing goes on to its next stage.
    """
    path = CodePath(is_on_path, hand_overs)
    depth = sys.get_coroutine_origin_tracking_depth()
    sys.set_coroutine_origin_tracking_depth(_ORIGIN_DEPTH)
    threading.setprofile(path.profile)
    sys.setprofile(path.profile)
    try:
        yield path
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]  # None is what it is without a profiler
        sys.set_coroutine_origin_tracking_depth(depth)


def _with_callers(call: _Call | None) -> Iterator[_Call]:
    """The call, its caller, and so on."""
    while call is not None:
        yield call
        call = call.parent


def _place(code: CodeType) -> Place:
    module = Path(code.co_filename).relative_to(_ROOT).with_suffix("")
    return Place(".".join(module.parts), code.co_qualname.replace(".<locals>", ""))


def _is_paused(frame: FrameType) -> bool:
    """Tells whether a function that returns to its caller does so by an `await` or a `yield`."""
    return opname[_instructions(frame.f_code)[frame.f_lasti]] == "YIELD_VALUE"


@cache
def _instructions(code: CodeType) -> bytes:
    return code.co_code


def _is_function(code: CodeType) -> bool:
    """Tells whether the code is that of a function, and not of a module, class, lambda, comprehension or property."""
    return (code.co_name, code.co_firstlineno) in _functions(code.co_filename)


@cache
def _functions(file: str) -> frozenset[tuple[str, int]]:
    """The name and first line of every function of a file, without properties."""
    found = set()
    for node in ast.walk(ast.parse(Path(file).read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            decorators = {ast.unparse(each) for each in node.decorator_list}
            if not any("property" in each or each.endswith(".setter") for each in decorators):
                found.add((node.name, min([node.lineno, *(each.lineno for each in node.decorator_list)])))
    return frozenset(found)


def _fields(value: object, code: CodeType) -> list[str]:
    """The attributes of a variable that the function reads and that are stored data, without properties and methods."""
    if not type(value).__module__.startswith("windlass."):
        return []
    stored = getattr(value, "__dict__", {})
    slots = {name for each in type(value).__mro__ for name in getattr(each, "__slots__", ())}
    slots |= set(getattr(type(value), "__struct_fields__", ()))
    return [name for name in code.co_names if name in stored or (name in slots and hasattr(value, name))]
