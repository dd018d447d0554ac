# The undisturbed run comes first and has two ranks; the node that is lost is the leading one.
windlass run --local-nodes 2 --local-gpus 1 --name before -N 2 -G 1 -- python train.py --to runs/before --steps 240 --pause 0
windlass up -d --cluster cluster.yaml
windlass submit --name mine -N 1:2 -G 1 --restarts 1 -- python train.py --to runs/mine --steps 240
until windlass logs mine 2>/dev/null | grep -q "step 10/"; do sleep 0.5; done
kill -9 "$(python pids.py mine agent 0)"
until windlass status mine | grep -q "attempt 2 on"; do sleep 0.5; done
noted=$(wc -l < samples/mine-2.jsonl)
until test "$(wc -l < samples/mine-2.jsonl)" -gt "$((noted + 6))"; do sleep 0.5; done
kill -9 "$(python pids.py mine rank 1)"
until windlass status mine | grep -q "recovered in place"; do sleep 0.5; done
noted=$(wc -l < samples/mine-2.jsonl)
until test "$(wc -l < samples/mine-2.jsonl)" -gt "$((noted + 10))"; do sleep 0.5; done
windlass run --name other --priority 1 -G 1 -- sh urgent.sh
until windlass status mine | grep -qE "^mine-[0-9]+ (Succeeded|Failed)"; do sleep 0.5; done
windlass down
