"""Sizes of a model that determine its memory and its time, and the sizes of decoders from a configuration."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from windlass.hardware.errors import PlanError
from windlass.train.telemetry.flops import decoder

PRECISIONS: Mapping[str, int] = {"fp32": 4, "bf16": 2}
"""Precision of the forward pass → bytes of a value. Parameters, gradients and optimizer state are fp32 in both."""


@dataclass(frozen=True, slots=True)
class ModelSize:
    """Sizes of one model in one precision at one length of sample.

    `parameters`: all of them; `block_parameters`: those of the largest repeated block. Bytes of one sample: `saved` is
    what autograd keeps of all blocks, `block_saved` of the largest block, `inputs` of all blocks if each is recomputed
    from its input, `head` at the loss, `workspace` while one block runs backward. `flops`: operations of one sample,
    forward and backward, without recomputation. `value_bytes`: bytes of an activation.
    """

    name: str
    parameters: int
    block_parameters: int
    blocks: int
    saved: int
    block_saved: int
    inputs: int
    head: int
    workspace: int
    flops: float
    tokens: int
    width: int
    value_bytes: int
    unmodelled: tuple[str, ...] = ()
    """Fields of the configuration that the sizes leave out."""


@dataclass(frozen=True, slots=True)
class Decoder:
    """A decoder-only transformer. `gated`: the MLP has a gate (SwiGLU); `tied`: the head shares the embedding.

    With `experts` MLPs in each layer, of which `active` run for a token.
    """

    layers: int
    width: int
    heads: int
    kv_heads: int
    head_width: int
    ffn: int
    vocab: int
    gated: bool
    tied: bool
    experts: int = 1
    active: int = 1
    unmodelled: tuple[str, ...] = ()

    @property
    def attention_parameters(self) -> int:
        """Parameters of the four projections of one layer."""
        return self.width * self.head_width * 2 * (self.heads + self.kv_heads)

    @property
    def mlp_parameters(self) -> int:
        """Parameters of one expert of one layer."""
        return self.width * self.ffn * (3 if self.gated else 2)

    @property
    def layer_parameters(self) -> int:
        """Parameters of one layer: attention, all experts with their router, two norms."""
        router = self.width * self.experts if self.experts > 1 else 0
        return self.attention_parameters + self.experts * self.mlp_parameters + router + 2 * self.width

    @property
    def parameters(self) -> int:
        """All parameters: layers, embedding, head and the last norm."""
        return self.layers * self.layer_parameters + self.vocab * self.width * (1 if self.tied else 2) + self.width

    @property
    def active_parameters(self) -> int:
        """Parameters that take part in the products of one token: without the embedding and without idle experts."""
        idle = self.layers * (self.experts - self.active) * self.mlp_parameters
        return self.parameters - idle - (0 if self.tied else self.vocab * self.width)


def size_decoder(shape: Decoder, length: int, precision: str, name: str) -> ModelSize:
    """Returns the sizes for samples of `length` tokens.

    A layer keeps for each token: of both norms the input and the normalized value in fp32 (the norms are not fused),
    and the output; queries, keys, values and result of fused attention; of the MLP the gate, its activation, the
    product and the other input (four tensors of its inner width; two without a gate). The loss keeps the logits, and
    in fp32 their logarithmic softmax and two gradients while it runs backward.
    """
    value = PRECISIONS[precision]
    inner, kv = shape.heads * shape.head_width, shape.kv_heads * shape.head_width
    mlp = shape.ffn * (4 if shape.gated else 2) * shape.active
    token = 4 * 4 * shape.width + value * (2 * shape.width + 2 * inner + 2 * kv + mlp)
    return ModelSize(
        name=name,
        parameters=shape.parameters,
        block_parameters=shape.layer_parameters,
        blocks=shape.layers,
        saved=length * token * shape.layers,
        block_saved=length * token,
        inputs=length * shape.layers * 4 * shape.width,
        head=length * (shape.vocab * (value + 12) + (4 + value) * shape.width),
        workspace=length * value * (3 * shape.ffn * shape.active + 2 * shape.width),
        flops=length * decoder(shape.active_parameters, shape.layers, inner, length),
        tokens=length,
        width=shape.width,
        value_bytes=value,
        unmodelled=shape.unmodelled,
    )


def read_decoder(path: Path) -> tuple[Decoder, int]:
    """Returns the decoder of a Hugging Face `config.json` or of the folder that holds it, and its longest sequence."""
    file = path / "config.json" if path.is_dir() else path
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        fix = "name a config.json, its folder, file.py:name, or sizes such as layers=32,width=4096,heads=32"
        raise PlanError(f"{file}: no configuration of a model: {error.strerror}; {fix}") from None
    except ValueError as error:
        raise PlanError(f"{file}: no configuration of a model: {error}") from None
    if not isinstance(config, dict):
        raise PlanError(f"{file}: no configuration of a model: not a JSON object")
    text = config.get("text_config")
    return _decoder_of(text if isinstance(text, dict) else config, str(file))


_UNMODELLED = ("kv_lora_rank", "first_k_dense_replace", "mlp_only_layers")
"""Fields of layers that are not all alike, or of latent attention."""
_DECODERS = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")
"""Ends of the names of architectures that generate text."""


def _check_decoder(config: Mapping[str, Any], file: str) -> None:
    """Raises PlanError for an encoder, or an encoder with a decoder: their sizes differ from a decoder's."""
    named = config.get("architectures")
    names = [each for each in named if isinstance(each, str)] if isinstance(named, list) else []
    is_other = bool(names) and not any(each.endswith(_DECODERS) for each in names)
    if config.get("is_encoder_decoder") is True or is_other:
        kind = ", ".join(names) or "an encoder with a decoder"
        raise PlanError(f"{file}: {kind}: no decoder; name a module as file.py:name instead")


def _decoder_of(config: Mapping[str, Any], file: str) -> tuple[Decoder, int]:
    _check_decoder(config, file)
    shared = _number(config, file, "n_shared_experts", "num_shared_experts", default=0)
    width = _number(config, file, "hidden_size", "n_embd", "d_model")
    heads = _number(config, file, "num_attention_heads", "n_head", "n_heads")
    old = "n_embd" in config  # GPT-2 and its relatives: no gate, head tied to the embedding, inner width 4 d
    return Decoder(
        layers=_number(config, file, "num_hidden_layers", "n_layer", "n_layers"),
        width=width,
        heads=heads,
        kv_heads=_number(config, file, "num_key_value_heads", default=heads),
        head_width=_number(config, file, "head_dim", default=width // heads),
        ffn=_number(config, file, "moe_intermediate_size", "intermediate_size", "n_inner", default=4 * width),
        vocab=_number(config, file, "vocab_size"),
        gated=not old and str(config.get("hidden_act", "silu")) in {"silu", "swish", "gelu_pytorch_tanh"},
        tied=bool(config.get("tie_word_embeddings", old)),
        experts=_number(config, file, "num_local_experts", "num_experts", "n_routed_experts", default=1) + shared,
        active=_number(config, file, "num_experts_per_tok", default=1) + shared,
        unmodelled=tuple(name for name in _UNMODELLED if config.get(name)),
    ), _number(config, file, "max_position_embeddings", "n_positions", default=4096)


def _number(config: Mapping[str, Any], file: str, *names: str, default: int | None = None) -> int:
    """Returns the first of the fields that is set. Raises PlanError without one, and for what is no positive number."""
    found = next(((name, config[name]) for name in names if config.get(name) is not None), None)
    if found is None:
        if default is None:
            raise PlanError(f"{file}: no {' or '.join(names)}: no decoder; name a module as file.py:name instead")
        return default
    name, value = found
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise PlanError(f"{file}: {name}: {value!r} is no positive number")
    return value


SIZES = ("layers", "width", "heads", "kv_heads", "ffn", "vocab")


def parse_sizes(text: str) -> Decoder:
    """Returns the decoder of "layers=32,width=4096,heads=32,kv_heads=8,ffn=14336,vocab=128256". Raises PlanError."""
    given: dict[str, int] = {}
    for part in text.split(","):
        name, _, number = part.partition("=")
        if name.strip() not in SIZES or not number.strip().isdecimal() or int(number) < 1:
            raise PlanError(f"{part!r}: sizes are {', '.join(f'{each}=N' for each in SIZES)}, separated by commas")
        given[name.strip()] = int(number)
    if missing := [name for name in ("layers", "width", "heads") if name not in given]:
        raise PlanError(f"{text}: {' and '.join(missing)} missing")
    width, heads = given["width"], given["heads"]
    return Decoder(
        layers=given["layers"],
        width=width,
        heads=heads,
        kv_heads=given.get("kv_heads", heads),
        head_width=width // heads,
        ffn=given.get("ffn", -(-8 * width // 3 // 256) * 256),
        vocab=given.get("vocab", 32_000),
        gated=True,
        tied=False,
    )
