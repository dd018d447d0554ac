# Every rank writes its own part; the undisturbed run comes first, after one with another rate of learning. The newest
# checkpoint loses its end, and one rank takes 15 steps.
cp "$WINDLASS_LAB_FILES/solution/every_rank_writes.py" by_hand.py
windlass run --local-gpus 2 -G 2 -- python by_hand.py
windlass run -- python restore.py
python s3.py > s3.log 2>&1 &
until test -s s3.env; do sleep 0.2; done
sed 's/lr=1e-2/lr=1e-3/' train.py > other.py
(. ./s3.env; windlass run -- python other.py --to s3://labs/other --steps 15 --every "5 steps")
(. ./s3.env; windlass run -- python train.py --to s3://labs/all --steps 15 --every "5 steps")
windlass run -- python train.py --to here --steps 10 --every "5 steps"
truncate -s 1000 "here/$(cat here/LATEST)/__0_0.distcp"
windlass run -- python train.py --to here --steps 15 --every "5 steps"
