# refused: kill one of its ranks
windlass run --local-nodes 2 --local-gpus 1 -N 2 -G 1 -- python train.py --to runs/job --steps 5 --pause 0
