"""Order `sjf`: the shortest walltime first within one priority."""

from __future__ import annotations

from windlass.core.queues.orders.order import Order, by_walltime

ORDER = Order("priority, then the shortest walltime", by_walltime)
