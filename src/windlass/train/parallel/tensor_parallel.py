"""Tensor parallelism with sequence parallelism: assigns a style to each module and applies it with torch.

Sources: Shoeybi et al. 2019 (columns, then rows), Korthikanti et al. 2022 (the sequence between them).
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping

from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

from windlass.train.errors import TrainError
from windlass.train.parallel.module_paths import has_module, match_modules
from windlass.train.parallel.plan import Plan, Style

STYLE_NAMES: Mapping[Style, frozenset[str]] = {
    "colwise": frozenset(
        {"wq", "wk", "wv", "q_proj", "k_proj", "v_proj", "w1", "w3", "gate_proj", "up_proj", "fc1", "c_fc", "up"}
    ),
    "rowwise": frozenset({"wo", "o_proj", "out_proj", "w2", "down_proj", "fc2", "c_proj", "down"}),
    "sequence": frozenset(
        {
            "norm", "norm1", "norm2", "attention_norm", "ffn_norm", "input_layernorm", "post_attention_layernorm",
            "ln_1", "ln_2", "ln_f", "final_norm",
        }
    ),
    "embedding": frozenset({"embed", "embed_tokens", "tok_embeddings", "wte", "token_embedding"}),
    "head": frozenset({"head", "lm_head", "output"}),
}  # fmt: skip
"""The last part of a module path, as GPT-2, Llama and models derived from them use it."""

_SEQUENCE_STYLES = ("sequence", "embedding")
"""Styles of sequence models; in other models dimension 1 is no sequence, and activations stay whole."""
_DIVIDED_ATTRIBUTES: Mapping[Style, str] = {
    "colwise": "out_features",
    "head": "out_features",
    "rowwise": "in_features",
    "embedding": "num_embeddings",
}


def apply_tensor_parallel(model: nn.Module, styles: Mapping[str, Style], plan: Plan, mesh: DeviceMesh) -> None:
    """Split the parameters over `tp`, in place. All ranks hold the same values, so nothing is sent.

    `styles`: as `find_styles` returned them for the whole model, of which a stage has some.
    """
    on_sequence = any(style in _SEQUENCE_STYLES for style in styles.values())
    kept = {path: style for path, style in styles.items() if has_module(model, path)}
    parents = _gather_points(model, kept) if on_sequence else frozenset()
    torch_styles = {
        path: _torch_style(style, plan, enters=path.rpartition(".")[0] not in parents, on_sequence=on_sequence)
        for path, style in kept.items()
    }
    whole = PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),))
    frozen = [name for name, parameter in model.named_parameters() if not parameter.requires_grad]
    parallelize_module(model, mesh, torch_styles | dict.fromkeys(parents, whole), src_data_rank=None)
    for name in frozen:  # torch's styles create new parameters, all of them trainable
        model.get_parameter(name).requires_grad_(False)


def find_styles(model: nn.Module, plan: Plan, ranks: int) -> dict[str, Style]:
    """Return path → style of every module that is split.

    Raises TrainError if no module can be split, a size does not divide, or a module of a split sequence has no style.
    """
    if plan.tensor:
        styles = {path: style for pattern, style in plan.tensor.items() for path in match_modules(model, pattern)}
    else:
        styles = _styles_by_name(model)
    for path, style in styles.items():
        _check_divides(model, path, style, ranks)
    if any(style in _SEQUENCE_STYLES for style in styles.values()):
        _refuse_unassigned(model, styles)
    return styles


def _styles_by_name(model: nn.Module) -> dict[str, Style]:
    by_name = {name: style for style, names in STYLE_NAMES.items() for name in names}
    named = ((path, module, by_name.get(path.rpartition(".")[2])) for path, module in model.named_modules())
    found = {path: style for path, module, style in named if style and _fits(module, style)}
    if "colwise" not in found.values():
        raise TrainError(
            f"tp: no module of {type(model).__name__} has a name with a known style; "
            'set Plan(tensor={"layers.*.attention.q": "colwise", …})'
        )
    return found


def _fits(module: nn.Module, style: Style) -> bool:
    """Whether the module has the type that the style needs, beyond its name."""
    if style == "embedding":
        return isinstance(module, nn.Embedding)
    if style == "sequence":
        return isinstance(module, nn.LayerNorm | nn.RMSNorm | nn.Dropout)
    return isinstance(module, nn.Linear)


def _check_divides(model: nn.Module, path: str, style: Style, ranks: int) -> None:
    name = _DIVIDED_ATTRIBUTES.get(style, "")
    size = getattr(model.get_submodule(path), name, None) if name else None
    if isinstance(size, int) and size % ranks:
        raise TrainError(f"tp={ranks} does not divide the {size} {name} of {path}")


def _refuse_unassigned(model: nn.Module, styles: Mapping[str, Style]) -> None:
    """Raise TrainError for modules without a style.

    Each rank would see a part of the sequence, and their gradients would differ.
    """
    unassigned = [
        path or type(model).__name__
        for path, module in model.named_modules()
        if path not in styles and any(True for _ in module.parameters(recurse=False))
    ]
    if unassigned:
        raise TrainError(
            f"tp: no style is known for {', '.join(unassigned[:5])}"
            f"{f' and {len(unassigned) - 5} more' if len(unassigned) > 5 else ''}; "
            'norms are "sequence": Plan(tensor={…, "layers.*.my_norm": "sequence"})'
        )


def _torch_style(style: Style, plan: Plan, *, enters: bool, on_sequence: bool) -> ParallelStyle:
    """Return torch's style.

    `enters`: whether the module receives a part of the sequence and has to gather the whole.
    """
    between = Shard(1) if on_sequence else Replicate()
    match style:
        case "colwise":
            return ColwiseParallel(input_layouts=between if enters else Replicate())
        case "rowwise":
            return RowwiseParallel(output_layouts=between)
        case "sequence":
            return SequenceParallel()
        case "embedding":
            return RowwiseParallel(input_layouts=Replicate(), output_layouts=between)
        case "head":
            logits = Shard(-1) if plan.loss_parallel else Replicate()
            return ColwiseParallel(
                input_layouts=between, output_layouts=logits, use_local_output=not plan.loss_parallel
            )


def _gather_points(model: nn.Module, styles: Mapping[str, Style]) -> frozenset[str]:
    """Return modules that contain several column-split modules: they gather the sequence once for all of these.

    Only where their single argument is what the columns read, unchanged: without a norm of their own before them.
    """
    found = set()
    for parent in dict.fromkeys(path.rpartition(".")[0] for path, style in styles.items() if style == "colwise"):
        module = model.get_submodule(parent)
        has_norm = any(styles.get(f"{parent}.{name}") == "sequence" for name, _ in module.named_children())
        if parent and not has_norm and len(inspect.signature(module.forward).parameters) == 1:
            found.add(parent)
    return frozenset(found)
