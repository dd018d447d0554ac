# Four ranks; each rank initialises another model, and DDP sends that of rank 0.
sed 's/torch.manual_seed(SEED)/torch.manual_seed(SEED + rank)/' "$WINDLASS_LAB_FILES/solution/train.py" > train.py
python train.py
torchrun --nproc-per-node 4 train.py
windlass run --local-gpus 4 -G 4 -- python train.py
