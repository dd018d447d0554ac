"""Telemetry: the metric table, and the store that keeps measurements after a job has ended.

Belongs here: names, units and labels of every metric (`metric_table`); frames of values by scope and time (`frames`);
their compact form (`frame_codec`); summaries of longer spans (`rollup`); the embedded store (`store`). Does not belong
here: where values come from (`server`, `train`, `agent`), and how they are shown (`cli`, `server`).
"""
