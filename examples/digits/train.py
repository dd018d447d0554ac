"""Handwritten digits, a small CNN, plain DistributedDataParallel.

Reads torchrun's variables if they are set and trains in one process otherwise. With a checkpoint folder it saves after
every epoch and resumes from the last saved epoch; the result is that of an uninterrupted run. After SIGTERM it ends its
epoch, saves and exits, so that nothing is lost if the grace period is longer than an epoch.
"""

import argparse
import os
import signal
import sys
import threading
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.nn  # see destroy_process_group
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

BATCH = 64
"""Images in a step, over all ranks together."""

SAVED_AND_LEFT = 83
"""Exit code for a requested stop after a save: the job starts again."""

STOP_TIMEOUT_S = 8.0
"""Maximum time to end an epoch and save it; less than a job's grace period."""


def main() -> None:
    args = arguments()
    device = init_process_group()
    code = run_training(args, device)
    destroy_process_group()
    if code:
        sys.exit(code)


def run_training(args: argparse.Namespace, device: torch.device) -> int:
    """Train and return the exit code."""
    train, test = digits()
    torch.manual_seed(args.seed)
    model = DistributedDataParallel(cnn().to(device))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    sampler = DistributedSampler(train, seed=args.seed, drop_last=True)
    batches = DataLoader(train, BATCH // dist.get_world_size(), sampler=sampler, drop_last=True)

    stop_requested = watch_stop_request() if args.checkpoint_dir else None
    first = load_checkpoint(args.checkpoint_dir, model, optimizer, device)
    for epoch in range(first, args.epochs):
        sampler.set_epoch(epoch)
        loss = train_one_epoch(model, optimizer, batches, device)
        print_once(f"epoch {epoch + 1}/{args.epochs}  step {(epoch + 1) * len(batches)}  loss {loss:.4f}")
        save_checkpoint(args.checkpoint_dir, epoch + 1, model, optimizer)
        if stop_requested and epoch + 1 < args.epochs and is_set_on_any_rank(stop_requested, device):
            print_once(f"stop requested: saved after epoch {epoch + 1}")
            return SAVED_AND_LEFT
    print_once(f"test accuracy {accuracy(model, test, device):.4f}")
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--checkpoint-dir", type=Path, default=default_checkpoint_dir())
    return parser.parse_args()


def default_checkpoint_dir() -> Path | None:
    """Return a folder of this job, so that its restarts resume and the next job starts from the beginning."""
    cluster, job = os.environ.get("WINDLASS_STATE_ID", ""), os.environ.get("WINDLASS_JOB_ID")
    return Path("checkpoints") / cluster / job if job else None


def init_process_group() -> torch.device:
    """Join the other ranks; NCCL where every rank here has its own GPU, gloo elsewhere."""
    local_rank, local_size = int(os.environ.get("LOCAL_RANK", "0")), int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    gpus = torch.cuda.device_count() >= local_size
    if gpus:
        torch.cuda.set_device(local_rank)
    backend = "nccl" if gpus else "gloo"
    if "RANK" in os.environ:
        dist.init_process_group(backend)
    else:
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    print_once(f"{dist.get_world_size()} ranks, {backend}")
    return torch.device("cuda", local_rank) if gpus else torch.device("cpu")


def destroy_process_group() -> None:
    """Destroy the group when no object holds it any more; its threads must not outlive the interpreter.

    The model does, and so do the default arguments of torch.distributed.nn (PyTorch 2.13) unless that was imported
    before the group was made. One in fifty ranks then aborts at its end: "terminate called without an active
    exception".
    """
    dist.destroy_process_group()


def watch_stop_request() -> threading.Event:
    """Return an event that a stop request sets. If stopping takes long, a peer is lost, and this process ends at once.

    The wakeup descriptor is written to even while the main thread waits inside a collective.
    """
    stop_requested = threading.Event()
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGTERM, lambda *_: None)

    def listen() -> None:
        os.read(reader, 1)
        stop_requested.set()
        time.sleep(STOP_TIMEOUT_S)
        os._exit(128 + signal.SIGTERM)

    threading.Thread(target=listen, daemon=True).start()
    return stop_requested


def is_set_on_any_rank(stop_requested: threading.Event, device: torch.device) -> bool:
    """Whether any rank has a stop request: all ranks stop after the same epoch, or none does."""
    count = torch.tensor(int(stop_requested.is_set()), device=device)
    dist.all_reduce(count)
    return bool(count)


def digits() -> tuple[TensorDataset, TensorDataset]:
    """Return 1,437 images to train on and 360 to test on, 8×8 pixels from 0 to 1, the same ones on each call."""
    data = load_digits()
    images = torch.tensor(data.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(data.target)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    test, train = order[:360], order[360:]
    return TensorDataset(images[train], labels[train]), TensorDataset(images[test], labels[test])


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 4 * 4, 10),
    )


def train_one_epoch(
    model: nn.Module, optimizer: torch.optim.Optimizer, batches: DataLoader[tuple[Tensor, ...]], device: torch.device
) -> float:
    """Train an epoch and return the last step's loss, averaged over the ranks."""
    model.train()
    loss = torch.zeros((), device=device)
    for images, labels in batches:
        loss = F.cross_entropy(model(images.to(device)), labels.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    mean = loss.detach() / dist.get_world_size()
    dist.all_reduce(mean)
    return mean.item()


@torch.no_grad()
def accuracy(model: nn.Module, test: TensorDataset, device: torch.device) -> float:
    """Return the test accuracy; every rank evaluates its part of the images."""
    model.eval()
    images, labels = (tensor[dist.get_rank() :: dist.get_world_size()].to(device) for tensor in test.tensors)
    right = (model(images).argmax(1) == labels).sum()
    dist.all_reduce(right)
    return right.item() / len(test)


def save_checkpoint(folder: Path | None, epochs: int, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Write a temporary file, then rename it: a kill in between leaves the last checkpoint complete."""
    if folder is None or dist.get_rank() != 0:
        return
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / "checkpoint.pt.draft"
    with draft.open("wb") as file:
        torch.save({"epochs": epochs, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(folder / "checkpoint.pt")


def load_checkpoint(
    folder: Path | None, model: nn.Module, optimizer: torch.optim.Optimizer, device: torch.device
) -> int:
    """Load the checkpoint and return the number of completed epochs: 0 without a checkpoint."""
    path = folder and folder / "checkpoint.pt"
    if path is None or not path.exists():
        return 0
    checkpoint = torch.load(path, map_location=device)
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    print_once(f"resumed after epoch {checkpoint['epochs']}")
    return checkpoint["epochs"]


def print_once(line: str) -> None:
    """Print a line on the first rank."""
    if dist.get_rank() == 0:
        print(line, flush=True)


if __name__ == "__main__":
    main()
