# Each rank takes its slice of an order that all ranks shuffle by seed and epoch, without DistributedSampler.
python - <<'PYTHON'
from pathlib import Path

text = Path("train.py").read_text()
text = text.replace(
    """    order = torch.Generator().manual_seed(SEED)
    batches = DataLoader(samples(), batch_size=GLOBAL_BATCH, shuffle=True, generator=order)
""",
    "",
)
text = text.replace(
    "        for numbers, inputs, targets in batches:\n",
    """        order = torch.randperm(256, generator=torch.Generator().manual_seed(SEED + epoch)).tolist()[rank::world]
        for numbers, inputs, targets in DataLoader(samples(), batch_size=GLOBAL_BATCH // world, sampler=order):
""",
)
Path("train.py").write_text(text)
PYTHON
python train.py &
torchrun --nproc-per-node 2 train.py
wait
windlass run --local-gpus 2 -G 2 -- python train.py
