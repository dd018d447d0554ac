# Objects of the cluster outside of the lab's namespace.
kubectl delete --ignore-not-found --wait=false clusterqueues.kueue.x-k8s.io/lab-h2 resourceflavors.kueue.x-k8s.io/lab-h2
