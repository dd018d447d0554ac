# refused: two ranks or more
cp "$WINDLASS_LAB_FILES/solution/by_hand.py" .
windlass run --local-gpus 2 -G 1 -- python by_hand.py
