# refused: every rank read all samples in epoch 1
python train.py
torchrun --nproc-per-node 2 train.py
windlass run --local-gpus 2 -G 2 -- python train.py
