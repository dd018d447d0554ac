"""What is wrong with a script, a mesh or a model, said once and with the fix."""

from __future__ import annotations


class TrainError(Exception):
    """Starting again would fail in the same way. The text says what to change.

    Most are raised before any collective, from facts that all ranks have, and so on all of them; those of a step, on
    all at the same one. What one machine alone can see, such as its GPUs, is raised on its ranks, and ends the others.
    """
