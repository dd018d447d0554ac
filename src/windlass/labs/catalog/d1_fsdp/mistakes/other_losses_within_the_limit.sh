# refused: the FSDP run within it has other losses than DDP
cp "$WINDLASS_LAB_FILES/solution/train.py" train.py
windlass run --local-gpus 2 -G 2 -- python train.py
windlass run --local-gpus 2 -G 2 --env MEMORY_MIB=300 -- python train.py || echo "DDP does not fit, as expected"
windlass run --local-gpus 2 -G 2 -- python train.py --parallel fsdp
sed -i 's/lr=1e-3/lr=1e-2/' train.py
windlass run --local-gpus 2 -G 2 --env MEMORY_MIB=300 -- python train.py --parallel fsdp --save
windlass run --local-gpus 4 -G 4 -- python train.py --parallel fsdp --no-reshard --resume
