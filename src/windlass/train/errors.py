"""The error of the training library for mistakes in a script, a mesh or a model."""

from __future__ import annotations


class TrainError(Exception):
    """A mistake that fails in the same way on every restart. The text says what to change.

    Most are raised before any collective, from facts that all ranks have, and therefore on all ranks; those of a step
    are raised on all ranks at the same step. A fault that one machine alone can see, such as missing GPUs, is raised on
    its ranks and ends the others.
    """
