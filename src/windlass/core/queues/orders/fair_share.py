"""Order `fair`: fair share between queues, then priority and age within a queue."""

from __future__ import annotations

from windlass.core.queues.orders.order import Order, by_priority

ORDER = Order("fair share, then priority and age", by_priority, fair_share=True)
