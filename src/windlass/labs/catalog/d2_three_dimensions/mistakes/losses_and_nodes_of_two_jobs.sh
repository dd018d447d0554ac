# refused: ranks of one tp group are on different nodes
cp "$WINDLASS_LAB_FILES"/solution/*.py .
windlass run --procs 4 --cpus 0 --mesh pp=4 -- python pipeline.py --micro-batches 8 16 --schedule 1f1b gpipe
windlass run -- python train.py
sed -i 's/lr=3e-3/lr=1e-2/' train.py
windlass run -N 2 --local-nodes 2 --exclusive --procs 4 --cpus 0 --mesh pp=2,dp=2,tp=2 -- python train.py
sed -i 's/lr=1e-2/lr=3e-3/' train.py
windlass run -N 8 --local-nodes 8 --exclusive --procs 1 --cpus 0 --mesh pp=2,dp=2,tp=2 -- python train.py
