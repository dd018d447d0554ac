# refused: rank 0 writes its own part alone
windlass run --local-gpus 2 -G 2 -- python by_hand.py
windlass run -- python restore.py || true
