"""The digits gang by the TrainingClient of kubeflow-training 1.9: a PyTorchJob of two replicas, followed to its end.

pip install kubeflow-training
python examples/kubeflow/training_client.py --image IMAGE
"""

import argparse

from kubeflow.training import TrainingClient

from digits import train_digits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--image", default="windlass-examples:1", help="an image with PyTorch and scikit-learn")
    parser.add_argument("--name", default="digits")
    parser.add_argument("--namespace", default="default")
    parser.add_argument("--epochs", type=int, default=12)
    args = parser.parse_args()
    client = TrainingClient(namespace=args.namespace)
    client.create_job(
        name=args.name,
        train_func=train_digits,
        parameters={"epochs": args.epochs},
        base_image=args.image,
        num_workers=2,
        num_procs_per_worker=1,
        resources_per_worker={"cpu": "300m", "memory": "2Gi"},
        env_vars={"OMP_NUM_THREADS": "1"},
    )
    client.wait_for_job_conditions(args.name, expected_conditions={"Running", "Succeeded"})
    client.get_job_logs(args.name, follow=True)
    client.wait_for_job_conditions(args.name)
    print(client.get_job_conditions(args.name)[-1].type)


if __name__ == "__main__":
    main()
