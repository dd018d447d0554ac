# A checkpoint by hand: all ranks put the parts together, rank 0 writes.
cp "$WINDLASS_LAB_FILES/solution/by_hand.py" .
windlass run --local-gpus 2 -G 2 -- python by_hand.py
windlass run --local-gpus 2 -- python restore.py
# A damaged checkpoint.
windlass run --local-gpus 2 -G 2 -- python train.py --to runs/first --steps 20
printf x | dd of="runs/first/$(cat runs/first/LATEST)/__0_0.distcp" bs=1 seek=200000 conv=notrunc
windlass run --local-gpus 2 -G 2 -- python train.py --to runs/first --steps 30
# The undisturbed run, in a bucket.
python s3.py > s3.log 2>&1 &
until test -s s3.env; do sleep 0.2; done
. ./s3.env
windlass run --local-gpus 2 -G 2 -- python train.py --to s3://labs/whole --steps 30
