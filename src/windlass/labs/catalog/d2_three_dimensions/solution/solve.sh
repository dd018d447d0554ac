# The bubble of 1F1B and GPipe for two numbers of micro-batches, and one process against a mesh of three dimensions.
cp "$WINDLASS_LAB_FILES"/solution/*.py .
windlass run --procs 4 --cpus 0 --mesh pp=4 -- python pipeline.py --micro-batches 8 16 --schedule 1f1b gpipe
windlass run -- python train.py
windlass run -N 2 --local-nodes 2 --exclusive --procs 4 --cpus 0 --mesh pp=2,dp=2,tp=2 -- python train.py
