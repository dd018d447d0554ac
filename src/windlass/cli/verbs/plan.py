"""`windlass plan`: estimates memory, mesh, step time and cost of a training run before it is submitted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from windlass.cli.errors import UsageError
from windlass.cli.exit_codes import ExitCode
from windlass.cli.terminal.output import Format, FormatOption, as_json, as_yaml
from windlass.hardware.facts.gpus import find_gpu
from windlass.hardware.facts.instances import find_instance
from windlass.hardware.training.memory import OPTIMIZERS, RECOMPUTATION
from windlass.hardware.training.model_size import PRECISIONS, ModelSize, parse_sizes, read_decoder, size_decoder
from windlass.hardware.training.plan import Request, format_gib, plain_plan, plan_training
from windlass.hardware.training.step_time import EFFICIENCY, GpuNode

_LONGEST = 8192
"""Tokens of a sample if the configuration allows longer ones and none are requested."""


def plan(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="config.json, its folder, file.py:name, or layers=…,width=…,heads=….")
    ],
    gpu: Annotated[str, typer.Option("--gpu", help="Model of GPU, such as H100-80GB.")] = "H100-80GB",
    gpus: Annotated[int, typer.Option("--gpus", min=1, help="GPUs of each node.")] = 8,
    nodes: Annotated[int, typer.Option("--nodes", "-N", min=1, help="Number of nodes.")] = 1,
    instance: Annotated[
        str, typer.Option("--instance", help="Machine type, such as p5.48xlarge, instead of --gpu and --gpus.")
    ] = "",
    gbits: Annotated[int, typer.Option("--network-gbits", min=1, help="Gbit/s of each node to other nodes.")] = 400,
    length: Annotated[int, typer.Option("--length", min=0, help="Tokens of a sample. Default: the model's.")] = 0,
    sample: Annotated[str, typer.Option("--input", help="Shape of one sample of a module: 1024:int64.")] = "",
    mesh: Annotated[str, typer.Option("--mesh", help="Degrees such as fsdp=8,tp=2, or auto.")] = "auto",
    precision: Annotated[str, typer.Option("--precision", help="bf16 or fp32.")] = "bf16",
    optimizer: Annotated[str, typer.Option("--optimizer", help="adamw, momentum or sgd.")] = "adamw",
    recompute: Annotated[str, typer.Option("--recompute", help="auto, none or full.")] = "auto",
    micro_batch: Annotated[int, typer.Option("--micro-batch", min=0, help="Samples. Default: the fastest.")] = 0,
    global_batch: Annotated[int, typer.Option("--global-batch", min=0, help="Samples of a step of all ranks.")] = 0,
    efficiency: Annotated[
        float, typer.Option("--efficiency", min=0.01, max=1, help="Fraction of the peak that operations reach.")
    ] = EFFICIENCY,
    tokens: Annotated[float, typer.Option("--tokens", min=0, help="Tokens to train on, such as 1e12.")] = 0,
    price: Annotated[float, typer.Option("--price", min=0, help="Price of a GPU for an hour.")] = 0,
    output: FormatOption = Format.TABLE,
) -> int:
    """Plan a training run: does the model fit, on which mesh, with which micro-batch, how fast, at what cost.

    Nothing runs. Figures of GPUs come from data sheets and every assumption is printed. The meshes are those that
    train.init(mesh="auto") considers. Prices are yours: --price with --tokens prints the cost.
    """
    _check("--precision", precision, PRECISIONS)
    _check("--optimizer", optimizer, OPTIMIZERS)
    _check("--recompute", recompute, ("auto", *RECOMPUTATION))
    size = _model_size(model, length, sample, precision)
    request = Request(
        _node(instance, gpu, gpus, gbits),
        nodes,
        precision,
        optimizer,
        mesh,
        recompute,
        micro_batch,
        global_batch,
        efficiency,
    )
    answer = plain_plan(size, request, plan_training(size, request))
    answer["cost"] = _cost(request.ranks, tokens, price, answer["step"]["tokens_per_second"])
    if output is Format.JSON:
        print(as_json(answer))
    elif output is Format.YAML:
        print(as_yaml(answer), end="")
    else:
        print("\n".join(_lines(answer)))
    return ExitCode.OK


def _check(option: str, value: str, valid: Any) -> None:
    if value not in valid:
        raise UsageError(f"{option} {value}: use {', '.join(valid)}")


def _node(instance: str, gpu: str, gpus: int, gbits: int) -> GpuNode:
    if not instance:
        return GpuNode(find_gpu(gpu), gpus, gbits)
    found = find_instance(instance)
    return GpuNode(found.model, found.gpus, found.gbits)


def _model_size(model: str, length: int, sample: str, precision: str) -> ModelSize:
    """Returns the sizes of a module (file.py:name), of sizes (name=number,…) or of a configuration."""
    if ".py:" in model:
        if not sample:
            raise UsageError("a module needs --input, the shape and type of one sample, such as 1024:int64")
        from windlass.hardware.training.module_trace import load_builder, size_module  # noqa: PLC0415 - imports torch

        return size_module(load_builder(model), sample, precision, model)
    if "=" in model and not Path(model).exists():
        return size_decoder(parse_sizes(model), length or 4096, precision, "decoder")
    shape, longest = read_decoder(Path(model))
    return size_decoder(shape, length or min(longest, _LONGEST), precision, model)


def _cost(ranks: int, tokens: float, price: float, rate: float) -> dict[str, float | None] | None:
    """Returns hours, GPU hours and price of a run of `tokens` tokens; None without tokens."""
    if not tokens:
        return None
    hours = tokens / rate / 3600
    return {"hours": hours, "gpu_hours": hours * ranks, "price": hours * ranks * price if price else None}


def _lines(answer: dict[str, Any]) -> list[str]:
    memory, step, model = answer["memory"], answer["step"], answer["model"]
    mfu = f"{step['mfu']:.1%}" if step["mfu"] is not None else "unknown"
    lines = [
        f"{model['name']}: {model['parameters'] / 1e9:.3g} B parameters, fits on {answer['ranks']} × {answer['gpu']}",
        (
            f"mesh {answer['mesh']}, micro-batch {answer['micro_batch']}, accumulate {answer['accumulate']}, "
            f"global batch {answer['global_batch']}, recomputation {answer['recompute']}"
        ),
        f"memory {format_gib(memory['peak'])} of {format_gib(memory['usable'])} at the peak ({memory['moment']})",
        *(f"  {name:<20} {format_gib(size):>12}" for name, size in memory["parts"].items()),
        (
            f"step {step['seconds']:.3g} s, {step['tokens_per_second']:,.0f} tokens/s, MFU {mfu} "
            f"(assumed efficiency {answer['efficiency']:.0%}; compute {step['compute']:.3g} s, "
            f"exposed communication {step['exposed']:.3g} s, bubble {step['bubble']:.3g} s)"
        ),
    ]
    if cost := answer["cost"]:
        price = f", price {cost['price']:,.0f}" if cost["price"] is not None else ""
        lines.append(f"run {cost['hours']:,.1f} h, {cost['gpu_hours']:,.0f} GPU hours{price}")
    lines += [f"not {each['mesh']}: {each['why']}" for each in answer["rejected"]]
    lines += [
        f"faster, and less simple: --mesh {each['mesh']}, micro-batch {each['micro_batch']}, recomputation "
        f"{each['recompute']}: {each['tokens_per_second']:,.0f} tokens/s"
        for each in answer["faster"]
    ]
    return [*lines, "assumptions:", *(f"  {each}" for each in answer["assumptions"])]
