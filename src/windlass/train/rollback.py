"""Going back to a checkpoint within a run, and on after the batches that led to trouble.

The state of a run is a checkpoint's, but for the data, which stand where they stood: behind the step that went wrong.
So what led there, from the checkpoint on, is not used again, and the state of the data stays one integer.
"""

from __future__ import annotations

from dataclasses import dataclass

ROLLBACKS = 3
"""So often in a row, each to an older checkpoint than the last, before there is a newer good one."""


@dataclass(frozen=True, slots=True)
class Rollbacks:
    """Those since the last good checkpoint was made."""

    count: int = 0
    step: int = 0
    """Where the last one went to."""

    def before(self, newest: int) -> int | None:
        """The newest step that the next one may go back to; None: any. `newest`: of the checkpoints there are.

        A checkpoint that has led into trouble is not taken twice: the trouble may be in it already.
        """
        return self.step - 1 if self.count and newest <= self.step else None

    def after(self, newest: int, step: int) -> Rollbacks:
        """This one counted, which goes to `step`; the first again where training had come further meanwhile."""
        return Rollbacks(self.count + 1 if self.count and newest <= self.step else 1, step)
