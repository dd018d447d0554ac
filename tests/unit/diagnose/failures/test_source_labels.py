"""Names of files tell the rank, the node and the attempt of a log."""

import io
from functools import partial

import pytest

from windlass.diagnose.failures.evidence import LogSource
from windlass.diagnose.failures.source_labels import label_source

NAMES = {
    "logs/rank3.log": (3, None, None),
    "logs/rank_12.out.gz": (12, None, None),
    "worker-1.log": (1, None, None),
    "torchelastic/attempt_2/3/stderr.log": (3, None, 2),
    "node4/rank33.log": (33, "node4", None),
    "slurm-8812-gpu17.out": (None, "gpu17", None),
    "slurm-8812.out": (None, None, None),
    "dmesg-node-1.log": (None, "node-1", None),
    "train.log": (None, None, None),
    "events.log": (None, None, None),
}


@pytest.mark.parametrize(("name", "labels"), NAMES.items(), ids=NAMES)
def test_labels_of_a_name(name: str, labels: tuple[int | None, str | None, int | None]) -> None:
    found = label_source(LogSource(name, partial(io.BytesIO, b"")))
    assert (found.rank, found.node, found.attempt) == labels


def test_labels_that_the_maker_of_a_source_gives_win_over_its_name() -> None:
    found = label_source(LogSource("rank3.log", partial(io.BytesIO, b""), rank=7, node="gpu1", attempt=2))
    assert (found.rank, found.node, found.attempt) == (7, "gpu1", 2)
