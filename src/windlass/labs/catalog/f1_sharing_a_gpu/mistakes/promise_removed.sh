# refused: change nothing but the lines
grep -v isolation "$WINDLASS_LAB_FILES/solution/request.yaml" > request.yaml
