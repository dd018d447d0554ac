# Stands for urgent work: ends when the training has done ten steps on one node, or after five minutes.
alone() {
    cat samples/*.jsonl | grep -c '"ranks": 1,'
}

before=$(alone)
for _ in $(seq 300); do
    test "$(alone)" -ge $((before + 10)) && break
    sleep 1
done
