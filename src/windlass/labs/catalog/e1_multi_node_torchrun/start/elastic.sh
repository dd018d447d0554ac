# Two agents, as on two nodes. The second one is stopped in the middle of the training.
agent() {
    exec torchrun --nnodes 2 --node-rank "$1" --master-addr 127.0.0.1 --master-port 29517 \
        --nproc-per-node 1 train.py --steps 20 --pause 0.2
}

agent 0 &
first=$!
agent 1 &
second=$!
until [ -e "checkpoint-$WINDLASS_JOB_ID.pt" ]; do sleep 0.2; done
kill "$second"
wait "$first"
