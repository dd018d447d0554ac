# Labels and taints belong to nodes, and outlive the namespace of the lab.
kubectl label node n1 n2 nvidia.com/gpu.product-
kubectl taint node n2 nvidia.com/gpu- || true
