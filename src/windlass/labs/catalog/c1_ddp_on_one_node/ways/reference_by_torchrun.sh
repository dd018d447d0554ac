# The reference is a run of torchrun with one process.
cp "$WINDLASS_LAB_FILES/solution/train.py" .
torchrun --nproc-per-node 1 train.py
torchrun --nproc-per-node 2 train.py
windlass run --local-gpus 2 -G 2 -- python train.py
