"""Finds the file of a program that shadows a module of the same name, from an error of an import and its traceback."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence

from windlass.diagnose.failures.line_prefix import read_prefixes
from windlass.diagnose.failures.traceback_frames import FRAME, INSTALLED, TRACEBACK

SHADOWED = "module-shadowed"
"""Rule of these errors. It fires only where this module finds the file, or where the message proves it."""
_PACKAGES = re.compile(
    "accelerate|apex|cuda|cupy|cv2|datasets|deepspeed|diffusers|einops|evaluate|flax|huggingface_hub|jax|keras|lightning|"
    "matplotlib|numba|numpy|onnx|pandas|peft|PIL|pyarrow|pydantic|ray|requests|safetensors|scipy|sklearn|tensorboard|"
    "tensorflow|timm|tokenizers|torch|torchaudio|torchvision|tqdm|transformers|triton|trl|vllm|wandb|xformers|yaml"
)
"""Libraries of training programs."""
_FILE = re.compile(r"(?:^|[/\\])(?P<module>[A-Za-z_]\w*)(?P<is_folder>[/\\]__init__)?\.pyc?$")


def shadow_values(values: Mapping[str, str], newest_first: Iterable[bytes]) -> Mapping[str, str] | None:
    """The shadowed module and the file that shadows it; None where no file of the program is to blame.

    `values`: what the signature captured: the module, its file where the message names it, or a package that is none
    by the message. `newest_first`: lines from the message back, in which the traceback lies.
    """
    if "package" in values:
        return {"module": values["package"]} if _PACKAGES.fullmatch(values["package"]) else None
    if "module" in values and not _is_known(values["module"]):
        return None
    frames = list(_files_of_traceback(newest_first))
    files = [values["file"]] if "file" in values else frames
    return next(({"module": found, "file": file} for file in files if (found := _shadowed_by(file, frames))), None)


def _shadowed_by(file: str, frames: Sequence[str]) -> str:
    """The known module whose name a file of the program has, else "".

    A folder with the name of a library may be the library itself, so it counts only beside a file of the traceback.
    """
    name = _FILE.search(file)
    if not name or not _is_known(name["module"]) or INSTALLED.search(file):
        return ""
    beside = {frame.replace("\\", "/").rpartition("/")[0] for frame in frames}
    is_of_library = name["is_folder"] and file[: name.start()].replace("\\", "/") not in beside
    return "" if is_of_library else name["module"]


def _is_known(module: str) -> bool:
    return module in sys.stdlib_module_names or _PACKAGES.fullmatch(module) is not None


def _files_of_traceback(newest_first: Iterable[bytes]) -> Iterable[str]:
    """The files of the frames, the innermost first."""
    for line in newest_first:
        message = read_prefixes(line.decode("utf-8", "replace")).message
        if TRACEBACK in message:
            return
        if frame := FRAME.match(message):
            yield frame["file"]
