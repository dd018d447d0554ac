# refused: write predicted_bubble in pipeline.py
windlass run --procs 4 --cpus 0 --mesh pp=4 -- python pipeline.py --micro-batches 4 16
