"""A rank of the step: prints a loss that falls with each epoch."""

import os

for epoch in range(1, 4):
    print(f"rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']}: epoch {epoch}, loss {1 / epoch:.4f}", flush=True)
