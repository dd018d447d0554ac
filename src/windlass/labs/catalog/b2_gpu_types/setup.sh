# Two nodes with different models, as GPU feature discovery labels them; one of them is kept free of pods without a toleration.
kubectl label node n1 --overwrite nvidia.com/gpu.product=NVIDIA-A100-SXM4-80GB
kubectl label node n2 --overwrite nvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3
kubectl taint node n2 --overwrite nvidia.com/gpu=present:NoSchedule
