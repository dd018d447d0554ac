# A cell on two ranks, then a step of a pipeline on two ranks. kfp may be in a Python of its own.
cp "$WINDLASS_LAB_FILES/solution/ranks.ipynb" "$WINDLASS_LAB_FILES/solution/pipeline.py" .
windlass up -d --local-nodes 2
jupyter execute --inplace ranks.ipynb
"$(dirname "$(command -v kfp)")/python" pipeline.py
