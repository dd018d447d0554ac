# One job of Kueue runs alone, as in step 1, and the pair of step 2 follows after its end.
cp "$WINDLASS_LAB_FILES/solution/sample-job.yaml" sample-job.yaml
kubectl apply -f kueue.yaml
kubectl create -f sample-job.yaml
kubectl wait --for=condition=Complete jobs --all --timeout=120s
kubectl create -f sample-job.yaml
kubectl create -f sample-job.yaml
windlass up -d --cluster cluster.yaml
windlass submit --queue vision --name big -N 3 -G 2 --cpus 0 --grace 2s -- sleep 600
windlass submit --queue speech --name ours -G 4 --cpus 0 -- sleep 600
until windlass status ours | grep -q Running; do sleep 0.2; done
windlass submit --queue vision --name quick -G 2 --cpus 0 --time 10s -- sleep 1
until windlass status quick | grep -q Succeeded; do sleep 0.2; done
windlass cancel ours
until windlass status big | grep -q Running; do sleep 0.2; done
kubectl wait --for=condition=Complete jobs --all --timeout=120s
