# refused: no DDP job has failed for lack of memory
cp "$WINDLASS_LAB_FILES/solution/train.py" train.py
windlass run --local-gpus 2 -G 2 -- python train.py
windlass run --local-gpus 2 -G 2 -- python train.py --parallel fsdp
