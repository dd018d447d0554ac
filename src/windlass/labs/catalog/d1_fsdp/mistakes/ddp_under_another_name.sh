# refused: each rank holds the whole model still
sed -i 's/    raise SystemExit(.*/    return DistributedDataParallel(model)/' train.py
windlass run --local-gpus 2 -G 2 -- python train.py
windlass run --local-gpus 2 -G 2 -- python train.py --parallel fsdp
