"""Order `priority`: the higher priority first, then age."""

from __future__ import annotations

from windlass.core.queues.orders.order import Order, by_priority

ORDER = Order("priority, then age", by_priority)
