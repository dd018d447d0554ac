"""The digits gang by the TrainerClient of kubeflow 0.5: a TrainJob of two nodes, followed to its end.

pip install kubeflow
python examples/kubeflow/trainer_client.py --image IMAGE
"""

import argparse

from kubeflow.common.types import KubernetesBackendConfig
from kubeflow.trainer import CustomTrainer, TrainerClient

from digits import train_digits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--image", default="windlass-examples:1", help="an image with PyTorch and scikit-learn")
    parser.add_argument("--namespace", default="default")
    parser.add_argument("--epochs", type=int, default=12)
    args = parser.parse_args()
    client = TrainerClient(KubernetesBackendConfig(namespace=args.namespace))
    trainer = CustomTrainer(
        train_digits,
        {"parameters": {"epochs": args.epochs}},
        image=args.image,
        num_nodes=2,
        resources_per_node={"cpu": "300m", "memory": "2Gi"},
        env={"OMP_NUM_THREADS": "1"},
    )
    name = client.train("torch-distributed", trainer=trainer)
    client.wait_for_job_status(name, {"Running", "Complete"})
    for line in client.get_job_logs(name, follow=True):
        print(line)
    print(client.wait_for_job_status(name).status)


if __name__ == "__main__":
    main()
