"""A script whose rank 1 hangs in its sixth step: in `data`, reading a sample, or in `save`, giving its state."""

import sys
import time

from small_models import Decoder, cross_entropy, tokens

from windlass import train

STEP = 5


class StuckSamples:
    """Samples that block once the run has made its steps. Of a network mount, for example."""

    def __init__(self, run: train.Run | None) -> None:
        self.samples, self.run = tokens(100), run

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> object:
        if self.run is not None and self.run.steps_done >= STEP:
            time.sleep(1000)
        return self.samples[index]


class StuckState:
    """A state that is not ready once the run has made its steps."""

    def __init__(self, run: train.Run | None) -> None:
        self.run = run

    def state_dict(self) -> dict[str, int]:
        if self.run is not None and self.run.steps_done >= STEP:
            time.sleep(1000)
        return {"value": 1}

    def load_state_dict(self, state: dict[str, int]) -> None:
        pass


def main(place: str, phase: str) -> None:
    with train.init(report_every=0) as run:
        late = run.world.rank == 1
        model, optimizer = run.parallelize(lambda: Decoder(layers=1), lr=1e-2)
        data = run.data(StuckSamples(run if late and phase == "data" else None), global_batch=12)
        state = run.state(model, optimizer, data, extra=StuckState(run if late and phase == "save" else None))
        checkpoints = run.checkpoint(place, state, every=f"{STEP} steps")
        for batch in checkpoints.resume().steps(20):
            run.step(optimizer, loss=run.backward(model, batch, cross_entropy))


if __name__ == "__main__":
    main(*sys.argv[1:])
