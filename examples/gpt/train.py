"""A small GPT that learns the Python standard library's own source, byte by byte, with plain DistributedDataParallel.

Reads torchrun's variables if they are there and is a world of one if not. With a checkpoint folder it saves every
fifty steps and goes on from there. Ends with a sample of what it has learnt.
"""

import argparse
import os
import sysconfig
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.nn  # see leave_the_world
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

CONTEXT = 96
BATCH = 24
"""Sequences in a step, over all ranks together."""
LEARNING_RATE = 2e-3


def main() -> None:
    args = arguments()
    device = join_the_world()
    learn(args, device)
    dist.barrier()  # rank 0 is still writing its sample
    leave_the_world()


def learn(args: argparse.Namespace, device: torch.device) -> None:
    train, held_out = standard_library()
    torch.manual_seed(args.seed)
    gpt = GPT(width=128, layers=6, heads=4).to(device)
    say(f"{sum(p.numel() for p in gpt.parameters()) / 1e6:.1f} M parameters, {len(train) / 1e6:.1f} MB of source")
    model = DistributedDataParallel(gpt)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=0.1)

    first = load_checkpoint(args.checkpoint_dir, model, optimizer, device)
    for step in range(first, args.steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, args.steps)
        loss = train_one_step(model, optimizer, batch(train, args.seed, step).to(device))
        done = step + 1
        if done % 50 == 0 or done == args.steps:
            heard = validation_loss(gpt, held_out, device)
            say(f"step {done}/{args.steps}  loss {mean(loss):.3f}  validation loss {heard:.3f}")
            save_checkpoint(args.checkpoint_dir, done, model, optimizer)
    if dist.get_rank() == 0:
        print("sample:", gpt.sample("def ", 200, device), sep="\n", flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--checkpoint-dir", type=Path, default=default_checkpoint_dir())
    return parser.parse_args()


def default_checkpoint_dir() -> Path | None:
    """A folder of this job's own, so that its restarts resume and the next job starts afresh."""
    cluster, job = os.environ.get("WINDLASS_STATE_ID", ""), os.environ.get("WINDLASS_JOB_ID")
    return Path("checkpoints") / cluster / job if job else None


def join_the_world() -> torch.device:
    """Join the other ranks; NCCL where every rank here has a GPU of its own, gloo elsewhere."""
    local_rank, local_size = int(os.environ.get("LOCAL_RANK", "0")), int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    gpus = torch.cuda.device_count() >= local_size
    if gpus:
        torch.cuda.set_device(local_rank)
    backend = "nccl" if gpus else "gloo"
    if "RANK" in os.environ:
        dist.init_process_group(backend)
    else:
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    say(f"{dist.get_world_size()} ranks, {backend}")
    return torch.device("cuda", local_rank) if gpus else torch.device("cpu")


def leave_the_world() -> None:
    """Destroy the group when nothing holds it any more; its threads must not outlive the interpreter.

    The model does, and so do the default arguments of torch.distributed.nn (PyTorch 2.13) unless that was imported
    before the group was made. A rank in fifty then aborts at its end: "terminate called without an active exception".
    """
    dist.destroy_process_group()


def standard_library() -> tuple[Tensor, Tensor]:
    """The bytes of every module at the library's top level: every tenth file is held out."""
    files = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    held_out = b"".join(path.read_bytes() for path in files[::10])
    train = b"".join(path.read_bytes() for index, path in enumerate(files) if index % 10)
    return tuple(torch.frombuffer(bytearray(text), dtype=torch.uint8) for text in (train, held_out))


def batch(text: Tensor, seed: int, step: int) -> Tensor:
    """This rank's sequences of a step: the same for any number of ranks, and after any restart."""
    draw = torch.Generator().manual_seed(seed * 1_000_003 + step)
    starts = torch.randint(len(text) - CONTEXT - 1, (BATCH,), generator=draw)
    mine = starts[dist.get_rank() :: dist.get_world_size()]
    return torch.stack([text[start : start + CONTEXT + 1] for start in mine]).long()


def learning_rate(step: int, steps: int) -> float:
    """Twenty steps of warm-up, then down in a straight line to a tenth."""
    return LEARNING_RATE * min((step + 1) / 20, 1 - 0.9 * step / steps)


class Block(nn.Module):
    """Attention and a feed-forward layer, each added to what came in."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        qkv = self.qkv(self.before_attention(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.before_mlp(x))


class GPT(nn.Module):
    """Bytes in, scores for the next byte out."""

    def __init__(self, width: int, layers: int, heads: int) -> None:
        super().__init__()
        self.byte, self.place = nn.Embedding(256, width), nn.Embedding(CONTEXT, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 256, bias=False)
        nn.init.normal_(self.byte.weight, std=0.02)
        nn.init.normal_(self.place.weight, std=0.02)

    def forward(self, text: Tensor) -> Tensor:
        place = torch.arange(text.shape[1], device=text.device)
        return self.head(self.norm(self.blocks(self.byte(text) + self.place(place))))

    @torch.no_grad()
    def sample(self, prompt: str, length: int, device: torch.device) -> str:
        text = torch.tensor([list(prompt.encode())], device=device)
        for _ in range(length):
            scores = self(text[:, -CONTEXT:])[:, -1] / 0.7
            text = torch.cat([text, torch.multinomial(scores.softmax(-1), 1)], dim=1)
        return bytes(text[0].tolist()).decode(errors="replace")


def loss_of(model: nn.Module, text: Tensor) -> Tensor:
    return F.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())


def train_one_step(model: nn.Module, optimizer: torch.optim.Optimizer, text: Tensor) -> Tensor:
    loss = loss_of(model, text)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.detach()


@torch.no_grad()
def validation_loss(gpt: GPT, held_out: Tensor, device: torch.device) -> float:
    """Nats a byte, over the same few thousand bytes every time."""
    return mean(sum(loss_of(gpt, batch(held_out, seed, step=0).to(device)) for seed in range(4)) / 4)


def mean(loss: Tensor) -> float:
    """The average over all ranks."""
    total = loss / dist.get_world_size()
    dist.all_reduce(total)
    return total.item()


def save_checkpoint(folder: Path | None, steps: int, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Write beside it, then rename: whoever is killed in between leaves the last checkpoint whole."""
    if folder is None or dist.get_rank() != 0:
        return
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / "checkpoint.pt.draft"
    with draft.open("wb") as file:
        torch.save({"steps": steps, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(folder / "checkpoint.pt")


def load_checkpoint(
    folder: Path | None, model: nn.Module, optimizer: torch.optim.Optimizer, device: torch.device
) -> int:
    """Returns how many steps are done already: 0 without a checkpoint."""
    path = folder and folder / "checkpoint.pt"
    if path is None or not path.exists():
        return 0
    checkpoint = torch.load(path, map_location=device)
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    say(f"resumed after step {checkpoint['steps']}")
    return checkpoint["steps"]


def say(line: str) -> None:
    if dist.get_rank() == 0:
        print(line, flush=True)


if __name__ == "__main__":
    main()
