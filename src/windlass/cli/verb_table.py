"""Every verb, its one line, and the module that holds it. Loading this loads none of them."""

from __future__ import annotations

from types import MappingProxyType

VERBS = MappingProxyType(
    {
        "run": ("run", "Run a job and follow it to its end"),
        "submit": ("submit", "Hand in a job, an array or a file of jobs, and print the ids"),
        "agent": ("agent", "Start and watch the ranks of one node, in the place of torchrun"),
        "alloc": ("alloc", "Hold nodes while a shell or a command of yours runs here"),
        "queue": ("listings", "List jobs that wait or run"),
        "status": ("status", "The whole story of a job; without one, of everything"),
        "top": ("top", "How far jobs that run are, live; of one job, rank by rank"),
        "why": ("why", "Why jobs wait: exact counts, and who frees what they need"),
        "logs": ("logs", "What the ranks of a job printed, of any attempt"),
        "exec": ("exec", "Run a command beside a rank of a job"),
        "cancel": ("job_control", "End jobs"),
        "suspend": ("job_control", "Take jobs off their nodes until they are resumed"),
        "resume": ("job_control", "Put suspended jobs back into the queue"),
        "nodes": ("listings", "List nodes, what they have and who holds it"),
        "history": ("listings", "List jobs that have ended"),
        "share": ("share", "Fair shares: what every queue should have, and has"),
        "reserve": ("reserve", "Keep nodes for a queue, users or maintenance, for a time to come"),
        "snapshot": ("snapshots", "Write down everything the scheduler knows"),
        "replay": ("snapshots", "Make the plan that follows from a snapshot, and say why"),
        "explain": ("job_files", "What a field of a job file means"),
        "render": ("job_files", "Print a job as Windlass understands it, every default filled in"),
        "schema": ("job_files", "Print the JSON Schema of job files, for editors"),
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
