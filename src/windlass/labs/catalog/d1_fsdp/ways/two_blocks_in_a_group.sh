# Groups of two blocks, sharded over four ranks and resumed on two, which keep gathered blocks; another limit.
sed -e 's/for block in model.blocks:/for pair in range(0, len(model.blocks), 2):/' \
    -e 's/fully_shard(block, /fully_shard(list(model.blocks[pair : pair + 2]), /' "$WINDLASS_LAB_FILES/solution/train.py" > train.py
windlass run --local-gpus 2 -G 2 -- python train.py
windlass run --local-gpus 2 -G 2 --env MEMORY_MIB=280 -- python train.py || echo "DDP does not fit, as expected"
windlass run --local-gpus 4 -G 4 --env MEMORY_MIB=280 -- python train.py --parallel fsdp --save
windlass run --local-gpus 2 -G 2 -- python train.py --parallel fsdp --no-reshard --resume
