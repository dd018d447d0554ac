"""A stage for golden scripts: the real controller on a world of which the script says what happens.

A script is a text file of blocks. The lines above `----` are what happens in one turn of the controller; the lines
below it, up to an empty line, are what it decided. `pytest --rewrite` writes them anew.

    topology block rack                  declare the levels of the network, widest first
    nodes n1 n2 gpu=2 place=b1/r1        declare nodes (again: the cluster changes); also cpu memory zone gpu-type
                                         taint=dedicated (with the effect NoSchedule)
    queue research gpu=4                 declare a queue with a quota; also parent weight half-life=60s borrowing=gpu:2
                                         lending=gpu:2 max-running user-running user-limits=gpu:4
    submit a replicas=2 gpu=1 time=60s   also cpu procs queue user priority deadline ttl restarts after array zone hold
                                         topology=rack (or rack,preferred or rack,spread or rack,slice=4)
                                         elastic=1:4 preemptible=no start-timeout=60s unreachable-grace=30s
                                         verdict=act gpu-type=a100,h100
                                         begin=300s (from the beginning of the script)
    policy min-runtime=60s               also resize-interval
    started a · exit a 1 code=1 · exit a 1 signal=9 · gone a · gone a 1 (member 1 never started)
    saved a · cancel a · kill a · suspend a · resume a · cordon n1 · wait 10s
    unreachable n1 n2 · reachable n1 · lost n1 (out of service) · remove n1
    diagnosed a rule=xid-79 certainty=certain scope=node advice=avoid-node node=n1
                                         the diagnosis of the newest attempt has ended
    takeover                             the controller is killed, another one recovers
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import replace

from windlass.backends.port import BackendEvent, Changes, ClusterChanged, JobArrived, JobEvent, Recovery, Transition
from windlass.controller.controller import Controller
from windlass.core.invariants import snapshot_violations
from windlass.core.lifecycle import events as e
from windlass.core.lifecycle.commands import Command, Launch, Stop
from windlass.core.model.diagnosed_cause import DiagnosedCause
from windlass.core.model.job import (
    ArrayMember,
    Condition,
    Dependency,
    Job,
    RestartPolicy,
    Role,
    TopologyRequest,
    VerdictUse,
)
from windlass.core.model.node import Node, Taint, Topology
from windlass.core.model.policy import Policy
from windlass.core.model.queue import Queue
from windlass.core.model.resources import GPU_TYPE, parse_quantity
from windlass.core.model.status import TERMINAL, JobState

RESOURCES = ("gpu", "cpu", "memory")


class Stage:
    """Holds what a world would keep: the states committed so far, the clock, and which generations are alive."""

    def __init__(self) -> None:
        self.now = 0
        self.submitted = 0
        self.nodes: dict[str, Node] = {}
        self.queues: dict[str, Queue] = {"default": Queue("default")}
        self.topology = Topology()
        self.policy = Policy()
        self.stored: dict[str, JobState] = {}
        self.alive: set[tuple[str, int]] = set()
        self.controller = self._new_controller()

    def play(self, lines: list[str]) -> list[str]:
        """One turn; returns what was decided, as lines."""
        events: list[BackendEvent] = []
        printed_lines: list[str] = []
        for line in lines:
            verb, *rest = shlex.split(line, comments=True)
            words = [word for word in rest if "=" not in word]
            options = dict(word.split("=", 1) for word in rest if "=" in word)
            if verb == "takeover":
                self.controller = self._new_controller()
                printed_lines += self._settle(self.controller.take_over(self.now))
            elif verb == "wait":
                printed_lines += self._wait(_ms(words[0]))
            else:
                events += self._events(verb, words, options)
        printed_lines += self._settle(self.controller.turn(events, self.now))
        return printed_lines + self._waiting()

    def _new_controller(self) -> Controller:
        live = tuple(state for state in self.stored.values() if state.status.phase not in TERMINAL or state.job.ttl)
        return Controller(Recovery(self._cluster(), live), self._ended)

    def _ended(self, job_id: str) -> JobState | None:
        state = self.stored.get(job_id)
        return state if state is not None and state.status.phase in TERMINAL else None

    def _cluster(self) -> ClusterChanged:
        return ClusterChanged(tuple(self.nodes.values()), tuple(self.queues.values()), self.topology, self.policy)

    def _wait(self, duration: int) -> list[str]:
        """Let time pass, with a turn at every moment that the controller asked for."""
        end, lines = self.now + duration, []
        while (due := self.controller.next_due()) is not None and due <= end:
            self.now = max(self.now, due)
            lines += [f"at {_time(self.now)}", *self._settle(self.controller.turn((), self.now))]
        self.now = end
        return lines

    # --- what happens ------------------------------------------------------------------------------

    def _events(self, verb: str, words: list[str], options: dict[str, str]) -> list[BackendEvent]:
        if verb in ("topology", "nodes", "queue", "policy", "cordon", "remove", "unreachable", "reachable", "lost"):
            self._change_cluster(verb, words, options)
            return [self._cluster()]
        if verb == "submit":
            self.submitted += 1
            return [JobArrived(words[0], self.submitted, _job(words[0], options))]
        generation = self._generation(words[0])
        if verb == "gone":
            self.alive.discard((words[0], generation))
        asked: dict[str, Callable[[], e.Event]] = {
            "started": lambda: e.Started(generation),
            "exit": lambda: e.MemberExited(generation, int(words[1]), _exit(options)),
            "gone": lambda: e.GangGone(generation, tuple(map(int, words[1:]))),
            "saved": lambda: e.Saved(generation, self.now),
            "diagnosed": lambda: _diagnosed(generation, options),
            "cancel": lambda: e.Cancel("ada"),
            "kill": lambda: e.Kill("ada"),
            "suspend": lambda: e.Suspend("ada"),
            "resume": lambda: e.Resume("ada"),
            "preempt": lambda: e.Preempt("its nodes are needed"),
        }
        return [JobEvent(words[0], asked[verb]())]

    def _change_cluster(self, verb: str, words: list[str], options: dict[str, str]) -> None:
        amounts = {name: parse_quantity(name, options[name]) for name in RESOURCES if name in options}
        if verb == "topology":
            self.topology, words = Topology(tuple(words)), []
        if verb == "policy":
            times = {name.replace("-", "_"): _ms(text) for name, text in options.items()}
            self.policy = replace(self.policy, **times)
        for name in words:
            if verb == "nodes":
                labels = {label: options[label] for label in ("zone", GPU_TYPE) if label in options}
                taints = (Taint(options["taint"]),) if "taint" in options else ()
                place = tuple(part for part in options.get("place", "").split("/") if part)
                self.nodes[name] = Node(name, amounts, labels, taints, place=place)
            elif verb == "queue":
                self.queues[name] = _queue(name, amounts, options)
            elif verb == "cordon":
                self.nodes[name] = replace(self.nodes[name], cordoned="by ada")
            elif verb in ("unreachable", "reachable", "lost"):
                self.nodes[name] = replace(self.nodes[name], ready=verb == "reachable", lost=verb == "lost")
            else:
                del self.nodes[name]

    def _generation(self, job_id: str) -> int:
        return self.stored[job_id].status.generation

    # --- what was decided --------------------------------------------------------------------------

    def _settle(self, changes: Changes) -> list[str]:
        """Keep what a world would keep, check the invariants, and tell the turn as text."""
        for state in changes.states:
            self.stored[state.id] = state
        for command in changes.commands:
            self._obey(command)
        assert snapshot_violations(self.controller.snapshot(), self.controller.states) == []
        return [_told(transition) for transition in changes.transitions] + [_asked(c) for c in changes.commands]

    def _obey(self, command: Command) -> None:
        if isinstance(command, Launch):
            others = {pair for pair in self.alive if pair[0] == command.job_id and pair[1] != command.generation}
            assert not others, f"two generations of {command.job_id} alive"
            self.alive.add((command.job_id, command.generation))

    def _waiting(self) -> list[str]:
        plan = self.controller.plan
        place = {job_id: f"[{number}]" for number, job_id in enumerate(plan.order, start=1)}
        return [
            f"{job_id} waits {place.get(job_id, '[-]')} {verdict.reason}: {verdict.message}"
            for job_id, verdict in plan.verdicts.items()
        ]


def replay(text: str, stage: Stage) -> str:
    """The script with every answer replaced by what the stage says now."""
    out = []
    for block in text.strip("\n").split("\n\n"):
        asked = block.split("\n----")[0].splitlines()
        lines = [line for line in asked if line and not line.startswith("#")]
        out.append("\n".join([*asked, "----", *stage.play(lines)]) if lines else block)
    return "\n\n".join(out) + "\n"


def _told(transition: Transition) -> str:
    move = (
        transition.after if transition.before in ("", transition.after) else f"{transition.before} → {transition.after}"
    )
    return f"{transition.job_id} {move} on {transition.event}: {transition.message}".rstrip(" :")


def _asked(command: Command) -> str:
    if isinstance(command, Launch):
        where = " ".join(f"{role}={','.join(nodes)}" for role, nodes in command.placement.nodes.items())
        return f"-> Launch {command.job_id} generation {command.generation} {where}"
    without_grace = " without grace" if isinstance(command, Stop) and not command.grace else ""
    return f"-> {type(command).__name__} {command.job_id}{without_grace}"


def _queue(name: str, nominal: dict[str, int], options: dict[str, str]) -> Queue:
    return Queue(
        name,
        nominal,
        parent=options.get("parent", ""),
        weight=int(options.get("weight", 1)),
        borrowing=_limits(options.get("borrowing", "")),
        lending=_limits(options.get("lending", "")),
        half_life=_ms(options.get("half-life", "0s")),
        max_running=int(options.get("max-running", 0)),
        user_running=int(options.get("user-running", 0)),
        user_limits=_limits(options.get("user-limits", "")),
    )


def _limits(text: str) -> dict[str, int]:
    pairs = (part.split(":") for part in text.split(",") if part)
    return {name: parse_quantity(name, amount) for name, amount in pairs}


def _job(name: str, options: dict[str, str]) -> Job:
    resources = {key: parse_quantity(key, options[key]) for key in RESOURCES if key in options}
    selector = {"zone": options["zone"]} if "zone" in options else {}
    least, most = (int(n) for n in options["elastic"].split(":")) if "elastic" in options else (None, None)
    replicas = most or int(options.get("replicas", 1))
    role = Role("worker", replicas, resources=resources, node_selector=selector, min_replicas=least, max_replicas=most)
    return Job(
        name,
        (role,),
        queue=options.get("queue", "default"),
        user=options.get("user", ""),
        priority=int(options.get("priority", 0)),
        walltime=_ms(options["time"]) if "time" in options else None,
        deadline=_ms(options["deadline"]) if "deadline" in options else None,
        unreachable_grace=_ms(options["unreachable-grace"]) if "unreachable-grace" in options else None,
        start_timeout=_ms(options.get("start-timeout", "600s")),
        ttl=_ms(options["ttl"]) if "ttl" in options else None,
        restart=RestartPolicy(int(options.get("restarts", 0)), verdict=VerdictUse(options.get("verdict", "tell"))),
        suspend="hold" in options,
        after=tuple(_dependency(text) for text in options.get("after", "").split(",") if text),
        begin=_ms(options["begin"]) if "begin" in options else None,
        array=_array(options["array"]) if "array" in options else None,
        topology=_topology(options["topology"]) if "topology" in options else None,
        preemptible=options.get("preemptible") != "no",
        gpu_types=tuple(options["gpu-type"].split(",")) if "gpu-type" in options else (),
    )


def _dependency(text: str) -> Dependency:
    word, _, job_id = text.rpartition(":")
    conditions = {"": Condition.SUCCEEDED, "any": Condition.FINISHED}
    return Dependency(job_id, conditions.get(word) or Condition(word))


def _array(text: str) -> ArrayMember:
    array_id, index, limit = text.split("/")
    return ArrayMember(array_id, int(index), int(limit))


def _topology(text: str) -> TopologyRequest:
    level, *words = text.split(",")
    sizes = [int(word.removeprefix("slice=")) for word in words if word.startswith("slice=")]
    return TopologyRequest(level, "preferred" not in words, "spread" in words, sum(sizes))


def _exit(options: dict[str, str]) -> e.Exit:
    detail = " ".join(f"{key} {value}" for key, value in options.items())
    if "signal" in options:
        return e.Exit(signal=int(options["signal"]), detail=detail)
    return e.Exit(code=int(options.get("code", 0)), detail=detail)


def _diagnosed(generation: int, options: dict[str, str]) -> e.Diagnosed:
    return e.Diagnosed(DiagnosedCause(generation, f"cause {options['rule']}", **options))


def _ms(text: str) -> int:
    return int(text.removesuffix("s")) * 1000


def _time(now: int) -> str:
    return f"{now / 1000:g}s"
