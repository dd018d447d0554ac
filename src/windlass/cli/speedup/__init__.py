"""Measures the speed-up of a job on several numbers of ranks, for `windlass scaling`.

- `sizes`: the job on another number of ranks
- `measurement`, `telemetry`: running one size, and receiving the step times that its first rank reports
- `throughput`: step time, throughput, speed-up and efficiency from those reports
- `report`, `charts`: table, notes, text bars and SVG

`sizes`, `throughput` and `charts` are pure. Does not belong here: how the time of a step is measured
(`train.telemetry`).
"""
