"""Runs torchrun, as a script."""

from torch.distributed.run import main

main()
