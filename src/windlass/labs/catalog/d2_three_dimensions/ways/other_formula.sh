# Another form of the formula, a plan that names each block, twice as many micro-batches, and the 3D run before its reference.
sed 's|return (stages - 1) / (micro_batches + stages - 1)|return 1 - micro_batches / (micro_batches + stages - 1)|' \
    "$WINDLASS_LAB_FILES/solution/pipeline.py" > pipeline.py
sed 's|"blocks.\*", "last"|"blocks.0", "blocks.1", "blocks.2", "blocks.3", "last"|' "$WINDLASS_LAB_FILES/solution/train.py" > train.py
windlass run -N 2 --local-nodes 2 --exclusive --procs 4 --cpus 0 --mesh tp=2,dp=2,pp=2 -- python train.py
windlass run --procs 1 --cpus 0 -- python train.py
windlass run --procs 4 --cpus 0 --mesh pp=4 -- python pipeline.py --micro-batches 8 32 --schedule gpipe 1f1b
