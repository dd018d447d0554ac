"""Records of telemetry by a controller, and queries of it.

Frames of values (`measurements`), the task that stores them (`recorder`), and answers of the API (`queries`). The store
itself is `windlass.telemetry`.
"""
