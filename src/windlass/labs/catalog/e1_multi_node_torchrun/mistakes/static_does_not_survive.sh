# refused: no succeeded job has gone on after the loss of an agent
windlass run -N 2 --local-nodes 2 --exclusive --procs 1 --cpus 0 -- python train.py
windlass run --cpus 0 -- sh elastic.sh || echo "the static run has failed"
