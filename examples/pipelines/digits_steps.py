"""The steps before and after the gang, for a pipeline of containers that share a folder.

python digits_steps.py load FOLDER
python digits_steps.py evaluate FOLDER
"""

import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits


def load(folder: Path) -> None:
    """Write the images and labels to train on and to test on."""
    data = load_digits()
    images, labels = data.images.astype("float32")[:, None] / 16, data.target.astype("int64")
    order = np.random.default_rng(0).permutation(len(labels))
    parts = {"test": order[:360], "train": order[360:]}
    arrays = {f"{name}_images": images[part] for name, part in parts.items()}
    np.savez(folder / "digits.npz", **arrays, **{f"{name}_labels": labels[part] for name, part in parts.items()})


def evaluate(folder: Path) -> None:
    """Compare the predictions of the gang with the labels."""
    predicted = np.load(folder / "output/predictions.npy")
    print(f"accuracy {(predicted == np.load(folder / 'digits.npz')['test_labels']).mean():.4f}")


if __name__ == "__main__":
    {"load": load, "evaluate": evaluate}[sys.argv[1]](Path(sys.argv[2]))
