# refused: every rank read all samples in epoch 1
python train.py &
torchrun --nproc-per-node 2 train.py
wait
