# refused: set a limit between both peaks for both
cp "$WINDLASS_LAB_FILES/solution/train.py" train.py
windlass run --local-gpus 2 -G 2 -- python train.py
windlass run --local-gpus 2 -G 2 -- python train.py --parallel fsdp
windlass run --local-gpus 2 -G 2 --env MEMORY_MIB=100 -- python train.py || echo "DDP does not fit"
