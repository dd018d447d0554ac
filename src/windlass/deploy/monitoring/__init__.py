"""Files for programs that watch an installation: alert rules, boards, a ServiceMonitor, labels for DCGM. Pure.

Does not belong here: the metrics themselves (`telemetry.metric_table`).
"""
