# One training on two nodes, an elastic one that loses a node, and the report of one against two nodes.
cp "$WINDLASS_LAB_FILES/solution/elastic_agents" elastic.sh
windlass run -N 2 --local-nodes 2 --exclusive --procs 1 --cpus 0 -- torchrun train.py
windlass run --cpus 0 -- sh elastic.sh
windlass scaling -N 1,2 --local-nodes 2 --exclusive --procs 1 --cpus 0 --steps 10 --warmup 3 -o json -- python scale.py > scaling.json
