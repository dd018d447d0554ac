# refused: a step of one rank is no gang
cp "$WINDLASS_LAB_FILES/solution/ranks.ipynb" .
windlass up -d --local-nodes 2
jupyter execute --inplace ranks.ipynb
"$(dirname "$(command -v kfp)")/python" pipeline.py
