# refused: no succeeded job has the mesh pp=2,dp=2,tp=2
cp "$WINDLASS_LAB_FILES"/solution/*.py .
windlass run --procs 4 --cpus 0 --mesh pp=4 -- python pipeline.py --micro-batches 8 16 --schedule 1f1b gpipe
windlass run -- python train.py
windlass run --procs 2 --cpus 0 -- python train.py
