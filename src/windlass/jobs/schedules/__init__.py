"""Schedules: jobs that are submitted again at the times of a cron expression. Pure; `now` is an argument.

`cron_times` computes times, `due_runs` decides what is due, `run_history` selects ended runs to remove. The daemon and
the operator carry the decisions out.
"""
