"""Export of telemetry to receivers of the user: OTLP for metrics and traces, and Prometheus remote write.

Settings by the environment (`settings`), the bounded queue that sends (`push_queue`), forms of messages
(`otlp_metrics`, `job_trace`, `remote_write`), and what runs beside a controller (`exports`). Does not belong here: what
is measured (`telemetry_records`), and names of metrics (`windlass.telemetry`).
"""
