# refused: all ranks have to call evaluate()
cp "$WINDLASS_LAB_FILES/solution/answers.txt" .
