"""The rules, a module for each family; importing a module enters its rules in the table."""

from importlib import import_module

FAMILIES = (
    "files",
    "metadata",
    "resources",
    "images",
    "commands",
    "settings",
    "pods",
    "termination",
    "volumes",
    "networks",
    "references",
    "gangs",
    "rendezvous",
    "queues",
    "gpu_operator",
    "pipelines",
    "programs",
    "batch",
    "batch_options",
)
"""Modules of this package, in the order of the reference page."""


def load_rules() -> None:
    """Enters all rules in the table."""
    for family in FAMILIES:
        import_module(f"{__name__}.{family}")
