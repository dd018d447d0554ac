"""Fills the next command of a rule with values of the case, or says where a reader finds them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from windlass.diagnose.failures.evidence import Fact

WHERE_TO_FIND = {
    "ACCOUNT": "the user or service account that the message names",
    "ADDRESS": "the address of rank 0, MASTER_ADDR or --rdzv-endpoint",
    "BUCKET": "the bucket of the job's paths",
    "CHECKPOINT": "the folder that the job resumes from",
    "DEVICE": "ibv_devices",
    "ENDPOINT": "the host of the object store",
    "FILE": "the newest file of the checkpoint",
    "FOLDER": "the folder of the file that the message names",
    "HOST": "the worker that the host file names",
    "ID": "the number of the GPU by nvidia-smi -L",
    "IFACE": "ip -br address",
    "IMAGE": "the image of the job",
    "JOB": "the name or number of the job",
    "KIND": "the kind that the message names",
    "LIBRARY": "the library that the message names",
    "LOG": "the log of the rank, which `windlass logs` prints",
    "LOGS": "a folder with the logs of all ranks",
    "MODEL": "a module, a config.json or sizes",
    "MODULE": "the module that the message names",
    "NAME": "the claim of the pod",
    "NODE": "the node of the rank",
    "NS": "the namespace of the job",
    "PACKAGE": "the package that the message names",
    "PATH": "the path that the message names",
    "PEER": "the address of another node of the job",
    "PID": "the process of the rank, by ps -ef | grep python on its node",
    "POD": "the pod of the rank, by kubectl get pods",
    "PORT": "the port of rank 0, MASTER_PORT or --rdzv-endpoint",
    "PREFIX": "the prefix of the job's paths",
    "PROGRAM": "the program that the message names",
    "QUEUE": "the queue of the job",
    "RANK": "the rank that ended first, which `windlass status` names",
    "RESOURCE": "the kind of object that the message names",
    "SCRIPT": "the batch script of the job",
    "SG": "the security group of the nodes",
    "VERB": "the verb that the message names",
}
"""Places of the values that a command needs, by the name that stands for the value."""
_PLACE = re.compile(r"{([\w|]+)}")
_SAFE_WORD = re.compile(r"[\w./:@%+=,][\w./:@%+=,-]{0,199}")
"""Values that a shell takes as one plain word. A log may contain any other."""


def fill_command(command: str, values: Mapping[str, str], rank: int | None, node: str | None) -> str:
    """The command with rank, node and values that a shell takes as plain words.

    Of `{port|PORT}` the name in capitals stays where no value is known, and a comment says where to find it.
    """
    known = dict(values) | ({"rank": str(rank)} if rank is not None else {}) | ({"node": node} if node else {})
    known = {name: word for name, value in known.items() if _SAFE_WORD.fullmatch(word := value.strip(" :'\"`"))}
    missing: list[str] = []

    def choose(place: re.Match[str]) -> str:
        names = place[1].split("|")
        word = next((known[name] for name in names if name in known), "")
        missing.extend([] if word else [names[-1]])
        return word or names[-1]

    filled = _PLACE.sub(choose, command)
    notes = "; ".join(f"{name}: {WHERE_TO_FIND[name]}" for name in dict.fromkeys(missing))
    return f"{filled}  # {notes}" if notes else filled


def command_for(command: str, fact: Fact) -> str:
    """The command with the values of a fact, and the name of its log."""
    return fill_command(command, {"log": fact.evidence.source, **fact.values}, fact.rank, fact.node)
