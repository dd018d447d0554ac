# refused: isolation: fault isolation is required
sed 's/mig:2g.20gb/mps:4/' "$WINDLASS_LAB_FILES/solution/request.yaml" > request.yaml
