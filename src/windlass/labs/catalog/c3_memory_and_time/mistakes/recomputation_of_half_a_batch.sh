# refused: compute blocks again, in steps of 16 sequences
windlass run -- python train.py
windlass run -- python train.py --micro-batch 4
sed -i 's/^GLOBAL_BATCH = 16/GLOBAL_BATCH = 8/' train.py
windlass run -- python train.py --ac full
