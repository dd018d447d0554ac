# refused: A killed agent is a lost node
windlass up -d --cluster cluster.yaml
windlass submit --name job -N 1:2 -G 1 -- python train.py --to runs/job --steps 1000
until windlass logs job 2>/dev/null | grep -q "step 10/"; do sleep 0.5; done
kill -9 "$(python pids.py job agent 1)"
sleep 2
