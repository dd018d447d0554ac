# Divides samples and batch among the ranks, and runs the training in the three ways.
cp "$WINDLASS_LAB_FILES/solution/train.py" train.py
python train.py
torchrun --nproc-per-node 2 train.py
windlass run --local-gpus 2 -G 2 -- python train.py
