# Two processes on one node in the cell, and three nodes in the step.
sed 's/-N 2/--procs 2/' "$WINDLASS_LAB_FILES/solution/ranks.ipynb" > ranks.ipynb
sed 's/"nodes": 2/"nodes": 3/' "$WINDLASS_LAB_FILES/solution/pipeline.py" > pipeline.py
windlass up -d --local-nodes 3
"$(dirname "$(command -v kfp)")/python" pipeline.py
jupyter execute --inplace ranks.ipynb
