# Measures the plain step, then each technique; accumulation and recomputation together stay below half of the memory.
windlass run -- python train.py
windlass run -- python train.py --micro-batch 4
windlass run -- python train.py --ac full
windlass run -- python train.py --precision bf16
windlass run -- python train.py --ac full --micro-batch 8
