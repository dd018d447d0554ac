# refused: give each its node by --exclusive
windlass run -N 2 --local-nodes 2 --procs 1 --cpus 0 -- python train.py
