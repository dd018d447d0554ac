"""What is wrong with a script, a mesh or a model, said once and with the fix."""

from __future__ import annotations


class TrainError(Exception):
    """Starting again would fail in the same way. The text says what to change.

    Raised before any collective, and from facts that all ranks have: so it is raised on all of them.
    """
