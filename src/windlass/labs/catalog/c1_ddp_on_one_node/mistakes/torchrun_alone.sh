# refused: windlass run --local-gpus 2 -G 2
cp "$WINDLASS_LAB_FILES/solution/train.py" train.py
python train.py &
torchrun --nproc-per-node 2 train.py
wait
