"""Causes of failures: reads the evidence of one job, matches the rules, and names the root cause.

`evidence` is the input, `engine.diagnose` the function, `windlass.diagnose.diagnosis` the outcome.
"""
