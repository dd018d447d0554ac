# refused: agent 1
windlass up -d --cluster cluster.yaml
windlass submit --name job -N 2 -G 1 -- python train.py --to runs/job --steps 1000
until windlass logs job 2>/dev/null | grep -q "step 10/"; do sleep 0.5; done
kill -9 "$(python pids.py job rank 1)"
until windlass status job | grep -q "recovered in place"; do sleep 0.5; done
