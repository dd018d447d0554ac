"""Job controllers: the objects of our kinds in the cluster, the gang behind each, and the restart of single pods."""
