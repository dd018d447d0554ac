# DDP, DDP beyond a limit, FSDP within it, and the checkpoint of two ranks on four, which keep gathered blocks.
cp "$WINDLASS_LAB_FILES/solution/train.py" train.py
windlass run --local-gpus 2 -G 2 -- python train.py
windlass run --local-gpus 2 -G 2 --env MEMORY_MIB=300 -- python train.py || echo "DDP does not fit, as expected"
windlass run --local-gpus 2 -G 2 --env MEMORY_MIB=300 -- python train.py --parallel fsdp --save
windlass run --local-gpus 4 -G 4 -- python train.py --parallel fsdp --no-reshard --resume
