# refused: call sampler.set_epoch(epoch)
grep -v set_epoch "$WINDLASS_LAB_FILES/solution/train.py" > train.py
python train.py &
torchrun --nproc-per-node 2 train.py
wait
