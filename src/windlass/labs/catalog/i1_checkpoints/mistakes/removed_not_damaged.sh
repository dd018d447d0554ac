# refused: removed is not a damaged one
cp "$WINDLASS_LAB_FILES/solution/by_hand.py" .
windlass run --local-gpus 2 -G 2 -- python by_hand.py
windlass run -- python restore.py
windlass run -- python train.py --to runs/first --steps 10 --every "5 steps"
rm -r "runs/first/$(cat runs/first/LATEST)"
windlass run -- python train.py --to runs/first --steps 15 --every "5 steps"
