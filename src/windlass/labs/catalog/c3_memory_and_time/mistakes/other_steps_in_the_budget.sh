# refused: its losses differ
windlass run -- python train.py
windlass run -- python train.py --precision bf16
sed -i 's/lr=1e-3/lr=2e-3/' train.py
windlass run -- python train.py --micro-batch 2 --ac full
