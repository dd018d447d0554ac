# refused: the reference has to come from the same code
python train.py
cp "$WINDLASS_LAB_FILES/solution/train.py" train.py
torchrun --nproc-per-node 2 train.py
