"""The digits example as one function that both Python clients of Kubeflow ship: its imports are within it."""


def train_digits(parameters: dict[str, int]) -> None:
    """Train on every rank that torchrun starts; the first one prints the test accuracy."""
    import torch  # noqa: PLC0415 - the clients ship the source of the function alone
    import torch.distributed as dist  # noqa: PLC0415
    from sklearn.datasets import load_digits  # noqa: PLC0415
    from torch import nn  # noqa: PLC0415

    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    data = load_digits()
    order = torch.randperm(len(data.target), generator=torch.Generator().manual_seed(0))
    images = torch.tensor(data.images, dtype=torch.float32).unsqueeze(1)[order] / 16
    labels = torch.tensor(data.target)[order]
    torch.manual_seed(0)
    layers = (nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(32 * 16, 10))
    model = nn.parallel.DistributedDataParallel(nn.Sequential(*layers))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    train = torch.arange(360 + rank, len(labels) - (len(labels) - 360) % size, size)  # the same number on each rank
    for epoch in range(parameters["epochs"]):
        for batch in train[torch.randperm(len(train))].split(64 // size):
            loss = nn.functional.cross_entropy(model(images[batch]), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if rank == 0:
            print(f"epoch {epoch + 1}/{parameters['epochs']}  loss {loss.item():.4f}", flush=True)
    right = (model(images[:360]).argmax(1) == labels[:360]).float().mean().item()
    if rank == 0:
        print(f"{size} ranks, test accuracy {right:.4f}", flush=True)
    dist.destroy_process_group()
