"""Load tests of a machine: matrix products, memory, all-reduce between local processes, and disk, with figures."""
