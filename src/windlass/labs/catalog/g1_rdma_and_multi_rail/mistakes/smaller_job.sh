# refused: 2 pods with 8 GPUs each
sed 's/replicas: 2/replicas: 1/' "$WINDLASS_LAB_FILES/solution/pasted.yaml" > pasted.yaml
