# A daemon with two nodes of one slot each; an elastic job of one or two of them.
windlass up -d --cluster cluster.yaml
windlass submit --name faulted -N 1:2 -G 1 --restarts 2 -- python train.py --to runs/faulted --steps 300
until windlass logs faulted 2>/dev/null | grep -q "step 10/"; do sleep 0.5; done
# A lost rank: the other one goes on.
kill -9 "$(python pids.py faulted rank 1)"
until windlass status faulted | grep -q "recovered in place"; do sleep 0.5; done
sleep 1
# A lost node: all ranks start again from the checkpoint.
kill -9 "$(python pids.py faulted agent 1)"
until windlass status faulted | grep -q "attempt 2 on"; do sleep 0.5; done
noted=$(wc -l < samples/faulted-1.jsonl)
until test "$(wc -l < samples/faulted-1.jsonl)" -gt "$((noted + 10))"; do sleep 0.5; done
# A more urgent job: SIGTERM, a save, and one node instead of two.
windlass run --name urgent --priority 10 -G 1 -- sh urgent.sh
# The undisturbed run.
windlass run --name plain -G 1 -- python train.py --to runs/plain --steps 300 --pause 0
until windlass status faulted | grep -qE "^faulted-[0-9]+ (Succeeded|Failed)"; do sleep 0.5; done
windlass down
