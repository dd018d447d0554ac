"""Every verb, its one line, and the module that holds it. Loading this loads none of them."""

from __future__ import annotations

from types import MappingProxyType

FAMILIES = MappingProxyType(
    {
        "run": ("run", "Run a job and follow it to its end"),
        "submit": ("submit", "Hand in a job, an array or a file of jobs, and print the ids"),
        "agent": ("agent", "Start and watch the ranks of one node, in the place of torchrun"),
        "alloc": ("alloc", "Hold nodes while a shell or a command of yours runs here"),
        "queue": ("listing", "List jobs that wait or run"),
        "status": ("story", "The whole story of a job; without one, of everything"),
        "top": ("top", "How far jobs that run are, live; of one job, rank by rank"),
        "why": ("why", "Why jobs wait: exact counts, and who frees what they need"),
        "logs": ("logs", "What the ranks of a job printed, of any attempt"),
        "exec": ("inside", "Run a command beside a rank of a job"),
        "cancel": ("change", "End jobs"),
        "suspend": ("change", "Take jobs off their nodes until they are resumed"),
        "resume": ("change", "Put suspended jobs back into the queue"),
        "nodes": ("listing", "List nodes, what they have and who holds it"),
        "history": ("listing", "List jobs that have ended"),
        "share": ("share", "Fair shares: what every queue should have, and has"),
        "reserve": ("reserve", "Keep nodes for a queue, users or maintenance, for a time to come"),
        "snapshot": ("pictures", "Write down everything the scheduler knows"),
        "replay": ("pictures", "Make the plan that follows from a snapshot, and say why"),
        "explain": ("files", "What a field of a job file means"),
        "render": ("files", "Print a job as Windlass understands it, every default filled in"),
        "schema": ("files", "Print the JSON Schema of job files, for editors"),
        "simulate": ("simulate", "Run a trace of the past on any cluster, and compare policies"),
        "scaling": ("scaling", "Compare a job on 1, 2, 4 ranks: speed-up, efficiency"),
        "checkpoint": ("checkpoint", "List, verify, prune and export what a run has saved"),
        "operator": ("operator", "Install the Kubernetes operator, check it, take it away"),
        "up": ("daemon", "Start the daemon"),
        "down": ("daemon", "End the daemon"),
        "completion": ("shell", "Print the completion script for bash, zsh or fish"),
        "version": ("shell", "Print the version"),
    },
)
"""Verb → (module of `windlass.cli`, help). A module has a function of the verb's name, or a group of verbs."""
