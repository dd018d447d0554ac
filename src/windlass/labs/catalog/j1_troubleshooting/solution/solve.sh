# Mends the five jobs, answers, and runs them.
for name in timeout mismatch memory device interface; do cp "$WINDLASS_LAB_FILES/solution/$name.py" .; done
cp "$WINDLASS_LAB_FILES/solution/answers.txt" .
for name in timeout mismatch memory device interface; do windlass run --local-gpus 2 -G 2 -- python $name.py; done
