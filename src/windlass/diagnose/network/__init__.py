"""The network test: latency and bandwidth between nodes, and sweeps of collectives, with a verdict.

- `sweep_worker`: one rank; a file of its own that needs torch alone, and runs under any launcher
- `measurements`: the lines of a sweep, read and checked
- `verdict`: slow nodes and pairs, and what is blocked
- `charts`: tables, a plot in text, CSV and SVG

Submitting the ranks and collecting their lines is in `cli`.
"""
