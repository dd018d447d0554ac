"""A loop whose checkpoint storage fails during training, for some steps or permanently."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import time
from pathlib import Path
from typing import Any


def trained(place: str, steps: int, how: dict[str, Any]) -> dict[str, Any]:
    """Return this rank's stderr, its steps, and its exit code. `broken`: steps after which the storage is no folder."""
    code, err, steps_done = 0, io.StringIO(), 0
    try:
        with contextlib.redirect_stderr(err):
            for steps_done in _steps(place, steps, how):  # noqa: B007 - the last one is told
                pass
    except SystemExit as left:
        code = int(left.code or 0)
    return {"code": code, "err": err.getvalue(), "steps": steps_done}


def _steps(place: str, steps: int, how: dict[str, Any]) -> Any:
    from small_models import Decoder, cross_entropy, tokens  # noqa: PLC0415

    from windlass import train  # noqa: PLC0415
    from windlass.train.checkpoint import save_report, save_retry  # noqa: PLC0415

    save_report._FIRST_PAUSE_S, save_retry._FINAL_SAVE_TIMEOUT_S = 0.001, how.get("insists", 150.0)
    with train.init(report_every=0) as run:
        model, optimizer = run.parallelize(lambda: Decoder(layers=1), lr=1e-2)
        data = run.data(tokens(100), global_batch=12)
        checkpoints = run.checkpoint(place, run.state(model, optimizer, data), every="2 steps")
        for batch in checkpoints.resume().steps(steps):
            run.step(optimizer, loss=run.backward(model, batch, cross_entropy))
            if run.steps_done == how.get("asked"):
                os.kill(os.getpid(), signal.SIGTERM)
            if run.world.is_first:
                _break(Path(place), run.steps_done in how["broken"])
                if run.steps_done == how.get("intruded"):
                    _take_away_the_lease(place)
            yield run.steps_done


def _take_away_the_lease(place: str) -> None:
    """Take the next lease, as another run does that believes this one dead."""
    from windlass.train.checkpoint.store.layout import lease_file  # noqa: PLC0415
    from windlass.train.checkpoint.store.lease import Holder, LeaseRecord, ProcessIdentity  # noqa: PLC0415
    from windlass.train.checkpoint.store.storage import open_storage  # noqa: PLC0415

    other = Holder("other-1", 1, ProcessIdentity("node-9", "another boot", 7, 100), 0)
    assert open_storage(place).create(lease_file(2), LeaseRecord(other, "nonce").to_json())


def _break(place: Path, is_broken: bool) -> None:
    away = place.with_name("away")
    if is_broken and place.is_dir():
        while not (place / "LATEST").exists():  # the first save continues in the background
            time.sleep(0.005)
        place.rename(away)
        place.write_text("")
    elif not is_broken and away.exists():
        place.unlink()
        away.rename(place)
