# refused: is not its report
cp "$WINDLASS_LAB_FILES/solution/train.py" train.py
python train.py &
torchrun --nproc-per-node 2 train.py
wait
windlass run --local-gpus 2 -G 2 -- sh -c 'test "$RANK" = 1 || cp runs/torchrun-2.json runs/sh-1.json'
cp runs/torchrun-2.json "runs/$(windlass history -o name | head -n 1).json"
