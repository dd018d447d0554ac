# The same with the queues exchanged and other sizes; the queue is a label of kubectl.
sed -i 's/^  generateName/  labels: {kueue.x-k8s.io\/queue-name: user-queue}\n  generateName/' sample-job.yaml
kubectl apply -f kueue.yaml
kubectl create -f sample-job.yaml
kubectl create -f sample-job.yaml
windlass up -d --cluster cluster.yaml
windlass submit --queue speech -N 2 -G 4 --name whole --cpus 0 --grace 1s -- sleep 600
windlass submit --queue vision -G 3 --name mine --cpus 0 -- sleep 600
until windlass status mine | grep -q Running; do sleep 0.2; done
windlass submit --queue speech -G 1 --name fast --cpus 0 --time 5s -- true
until windlass status fast | grep -q Succeeded; do sleep 0.2; done
windlass cancel mine
until windlass status whole | grep -q Running; do sleep 0.2; done
kubectl wait --for=condition=Complete jobs --all --timeout=120s
