"""Order `fifo`: first come, first served."""

from __future__ import annotations

from windlass.core.queues.orders.order import Order

ORDER = Order("first come, first served", lambda _gang, _policy: (), uses_priority=False)
