# refused: a smaller batch is another training
windlass run -- python train.py
sed -i 's/^GLOBAL_BATCH = 16/GLOBAL_BATCH = 4/' train.py
windlass run -- python train.py
