# refused: no cell of a notebook ran on two ranks
windlass run --local-nodes 2 -N 2 --cpus 0 -- python3 train.py
