"""Process of one load test on one device: `python -m …worker TEST DEVICE SECONDS [STORE RANK RANKS]`.

Prints one line of JSON. It is a process of its own so that a crash of a driver or of a library ends the test alone.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec

from windlass.diagnose.host.burn.disk_load import measure_disk
from windlass.diagnose.host.burn.measurement import Measurement, encode

_PACKAGE = "windlass.diagnose.host.burn"


def run_test(test: str, device: str, seconds: float, group: Sequence[str]) -> Measurement:
    """Returns the measurement of one test; an error becomes its `failure`."""
    try:
        if test == "disk":
            return measure_disk(device, seconds)
        if find_spec("torch") is None and test == "all-reduce":
            return Measurement(test, device, failure="torch is not installed", is_possible=False)
        load = import_module(f"{_PACKAGE}.{'torch_load' if find_spec('torch') else 'numpy_load'}")
        if test == "matmul":
            return load.measure_products(device, seconds)  # type: ignore[no-any-return]
        if test == "memory":
            return load.measure_copies(device, seconds)  # type: ignore[no-any-return]
        store, rank, ranks = group
        return load.measure_all_reduces(device, seconds, store, int(rank), int(ranks))  # type: ignore[no-any-return]
    except Exception as error:  # noqa: BLE001 - every error of a device is a result
        name = f"disk:{device}" if test == "disk" else test
        line = (str(error).splitlines() or [""])[0][:300]
        return Measurement(name, device, failure=f"{type(error).__name__}: {line}")


if __name__ == "__main__":
    print(encode(run_test(sys.argv[1], sys.argv[2], float(sys.argv[3]), sys.argv[4:])), flush=True)  # noqa: T201
