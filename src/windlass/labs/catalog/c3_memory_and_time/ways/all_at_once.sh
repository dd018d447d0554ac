# Selective recomputation with accumulation is within the budget; bf16 is measured together with full recomputation.
windlass run -- python train.py
windlass run -- python train.py --ac selective --micro-batch 2
windlass run -- python train.py --ac full --precision bf16
