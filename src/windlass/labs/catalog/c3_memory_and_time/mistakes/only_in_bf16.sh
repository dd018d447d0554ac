# refused: no run computes all 16 sequences in one pass, in fp32
windlass run -- python train.py --precision bf16
