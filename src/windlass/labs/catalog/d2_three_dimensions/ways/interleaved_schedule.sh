# Two stages on each rank: a bubble below the limit with few micro-batches.
cp "$WINDLASS_LAB_FILES"/solution/*.py .
windlass run --procs 4 --cpus 0 --mesh pp=4 -- python pipeline.py --micro-batches 4 8 --schedule 1f1b gpipe interleaved
windlass run -- python train.py
windlass run -N 2 --local-nodes 2 --exclusive --procs 4 --cpus 0 --mesh pp=2,dp=2,tp=2 -- python train.py
