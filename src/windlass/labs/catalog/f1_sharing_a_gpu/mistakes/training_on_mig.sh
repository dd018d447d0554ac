# refused: NCCL does not connect MIG instances
sed 's/use: whole/use: mig:7g.80gb/' "$WINDLASS_LAB_FILES/solution/request.yaml" > request.yaml
