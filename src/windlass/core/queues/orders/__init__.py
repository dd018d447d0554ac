"""Queue orders: one file for each order that a policy can name, and the registry that looks them up.

An order is data (`order.Order`). Nothing outside this package depends on a single order's name.
"""
