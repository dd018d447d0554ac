"""The digits example as a step of a pipeline: reads WINDLASS_INPUT, writes its model to WINDLASS_OUTPUT."""

import os
import sys
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

sys.path.insert(0, str(Path(__file__).parents[1] / "digits"))
from train import BATCH, cnn, destroy_process_group, init_process_group, print_once, train_one_epoch


def main() -> None:
    device = init_process_group()
    data = np.load(os.environ["WINDLASS_INPUT"])
    images, labels = (torch.tensor(data[name]) for name in ("train_images", "train_labels"))
    torch.manual_seed(0)
    model = DistributedDataParallel(cnn().to(device))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    sampler = DistributedSampler(TensorDataset(images, labels), seed=0, drop_last=True)
    batches = DataLoader(sampler.dataset, BATCH // dist.get_world_size(), sampler=sampler, drop_last=True)
    epochs = int(os.environ.get("EPOCHS", "4"))
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        loss = train_one_epoch(model, optimizer, batches, device)
        print_once(f"epoch {epoch + 1}/{epochs}  loss {loss:.4f}")
    if dist.get_rank() == 0:
        images = torch.tensor(data["test_images"], device=device)
        write_output(Path(os.environ["WINDLASS_OUTPUT"]), model.module, images)
    del model, optimizer
    destroy_process_group()


@torch.no_grad()
def write_output(folder: Path, model: torch.nn.Module, images: torch.Tensor) -> None:
    """Write the weights and the predicted labels of the test images."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(model.state_dict(), folder / "model.pt")
    np.save(folder / "predictions.npy", model(images).argmax(1).cpu().numpy())


if __name__ == "__main__":
    main()
