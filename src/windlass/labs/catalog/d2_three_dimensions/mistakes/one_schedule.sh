# refused: no number of micro-batches was measured by both
cp "$WINDLASS_LAB_FILES"/solution/*.py .
windlass run --procs 4 --cpus 0 --mesh pp=4 -- python pipeline.py --micro-batches 8 16
