"""Distributions that have a module: the names that pip knows, which often differ from those that programs import."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

MISSING = "package-missing"
"""Rule of modules and packages that are not installed."""
_MODULE_VALUES = ("package", "old", "run", "module", "bare", "named")
"""Values of the rule that are modules; `old` is that of Python 2."""
_DISTRIBUTION_VALUES = ("metadata", "needed", "pip", "dist", "please", "isnot", "need")
"""Values of the rule that are distributions, as the message names them."""
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,99}")
_SAME = (
    "accelerate albumentations bitsandbytes datasets deepspeed diffusers einops evaluate flax h5py jax joblib kornia "
    "librosa lightning matplotlib mlflow mpi4py ninja nltk numba numpy omegaconf onnx onnxruntime optuna pandas peft "
    "psutil pyarrow pydantic regex requests safetensors scipy seaborn sentencepiece soundfile tensorboard tensorflow "
    "tiktoken timm tokenizers torch torchaudio torchdata torchmetrics torchvision tqdm transformers triton trl vllm "
    "wandb webdataset xformers zstandard"
)
"""Modules of training programs whose distribution has the same name."""
_DISTRIBUTIONS: Mapping[str, str] = MappingProxyType(
    {
        **{name: name for name in _SAME.split()},
        "Crypto": "pycryptodome",
        "Levenshtein": "Levenshtein",
        "MySQLdb": "mysqlclient",
        "OpenSSL": "pyOpenSSL",
        "PIL": "pillow",
        "attr": "attrs",
        "bs4": "beautifulsoup4",
        "causal_conv1d": "causal-conv1d",
        "cv2": "opencv-python-headless",
        "dateutil": "python-dateutil",
        "docx": "python-docx",
        "dotenv": "python-dotenv",
        "faiss": "faiss-cpu",
        "fitz": "PyMuPDF",
        "flash_attn": "flash-attn",
        "git": "GitPython",
        "google.protobuf": "protobuf",
        "huggingface_hub": "huggingface-hub",
        "hydra": "hydra-core",
        "jwt": "PyJWT",
        "mamba_ssm": "mamba-ssm",
        "open_clip": "open-clip-torch",
        "pkg_resources": "setuptools",
        "psycopg2": "psycopg2-binary",
        "pycocotools": "pycocotools",
        "pynvml": "nvidia-ml-py",
        "pytorch_lightning": "pytorch-lightning",
        "rouge_score": "rouge-score",
        "ruamel.yaml": "ruamel.yaml",
        "sentence_transformers": "sentence-transformers",
        "skimage": "scikit-image",
        "sklearn": "scikit-learn",
        "streaming": "mosaicml-streaming",
        "tensorboardX": "tensorboardX",
        "torch_geometric": "torch-geometric",
        "torch_scatter": "torch-scatter",
        "transformer_engine": "transformer-engine",
        "yaml": "PyYAML",
        "zmq": "pyzmq",
    }
)
"""Module → its distribution, of those that training programs import.

Modules whose name on PyPI is that of another project, such as apex and clip, are not among them.
"""
_BY_FOLDED_NAME = {each.lower().replace("_", "-"): each for each in _DISTRIBUTIONS.values()}


def distribution_values(values: Mapping[str, str]) -> Mapping[str, str]:
    """The distribution to look for, and to install where it is a known one, of what a message names.

    A log may name anything, and a package of that name may be anyone's: only known ones are to be installed.
    """
    module = next((values[name] for name in _MODULE_VALUES if name in values), "")
    named = module or next((values[name] for name in _DISTRIBUTION_VALUES if name in values), "")
    named = named.strip(" .,:;'\"`")
    if not _NAME.fullmatch(named):
        return {}
    top = named.partition(".")[0]
    known = _DISTRIBUTIONS.get(named) or _DISTRIBUTIONS.get(top) or _BY_FOLDED_NAME.get(named.lower().replace("_", "-"))
    return {"distribution": known, "install": known} if known else {"distribution": top if module else named}
