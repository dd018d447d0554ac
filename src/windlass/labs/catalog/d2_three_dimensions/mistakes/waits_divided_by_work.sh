# refused: divide what a stage waits by the whole step, not by its own work
sed 's|return None$|return (stages - 1) / micro_batches|' "$WINDLASS_LAB_FILES/start/pipeline.py" > pipeline.py
windlass run --procs 4 --cpus 0 --mesh pp=4 -- python pipeline.py
