"""Restores by-hand/ in one process: a file model.pt for torch.load, or a folder of torch.distributed.checkpoint.

This file needs no change.
"""

import sys
from pathlib import Path

import torch
import torch.distributed.checkpoint as dcp
from train import digest, network

model = network()
state = model.state_dict()
needed = sum(value.numel() for value in state.values())
folder = Path("by-hand")
if (folder / ".metadata").exists():
    dcp.load(state, checkpoint_id=folder)
    model.load_state_dict(state)
elif (folder / "model.pt").exists():
    saved = torch.load(folder / "model.pt", weights_only=True)
    found = sum(value.numel() for value in saved.values())
    print(f"by-hand/model.pt has {found:,} of {needed:,} numbers")
    for name, value in saved.items():
        if value.shape != state[name].shape:
            sys.exit(f"{name} is {tuple(value.shape)} in the file and {tuple(state[name].shape)} in the model")
    model.load_state_dict(saved)
else:
    sys.exit("by-hand/ has no checkpoint: run by_hand.py first")
print(f"restored parameters {digest(model)}, from by-hand/")
