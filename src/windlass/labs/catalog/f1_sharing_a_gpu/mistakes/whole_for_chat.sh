# refused: 12 of 12 pods find no free GPUs
sed 's/mig:2g.20gb/whole/' "$WINDLASS_LAB_FILES/solution/request.yaml" > request.yaml
