"""`windlass plan`: sizes of decoders, memory by part, choice of mesh, and the step time of published runs."""

import json

import pytest

from windlass.cli.entry import main
from windlass.hardware.errors import PlanError
from windlass.hardware.facts.gpus import find_gpu
from windlass.hardware.training.memory import Step, estimate_memory
from windlass.hardware.training.model_size import _decoder_of, parse_sizes, read_decoder, size_decoder
from windlass.hardware.training.plan import Request, plan_training
from windlass.hardware.training.step_time import GpuNode, estimate_step
from windlass.train.mesh.degrees import Degrees

LLAMA_8B = "layers=32,width=4096,heads=32,kv_heads=8,ffn=14336,vocab=128256"
SMALL = "layers=8,width=512,heads=8,ffn=1408,vocab=8192"
H100 = GpuNode(find_gpu("H100-80GB"), 8, 3200)
CONFIG = {
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
}


def llama(length=4096, precision="bf16"):
    return size_decoder(parse_sizes(LLAMA_8B), length, precision, "llama")


def test_the_parameters_of_llama_3_8b_are_counted_exactly(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    shape, longest = read_decoder(tmp_path)
    assert shape == parse_sizes(LLAMA_8B)
    assert shape.parameters == 8_030_261_248
    assert longest == 131072


def test_idle_experts_take_memory_and_no_operations():
    config = {**CONFIG, "num_key_value_heads": 8, "vocab_size": 32000, "num_local_experts": 8, "num_experts_per_tok": 2}
    shape, _ = _decoder_of(config, "mixtral")
    assert shape.parameters == pytest.approx(46.7e9, rel=0.01)
    assert shape.active_parameters == pytest.approx(12.7e9, rel=0.02)


@pytest.mark.parametrize(
    ("text", "fault"),
    [("layers=8,width=512", "heads missing"), ("layers=8,widht=512", "sizes are"), ("layers=0", "sizes are")],
)
def test_invalid_sizes_are_refused_with_the_valid_ones(text, fault):
    with pytest.raises(PlanError, match=fault):
        parse_sizes(text)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"hidden_size": "x"}'])
def test_a_file_that_is_no_decoder_is_refused(tmp_path, text):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(PlanError, match=r"no configuration|no num_hidden|no hidden_size|no positive number"):
        read_decoder(tmp_path)


@pytest.mark.parametrize(
    ("micro_batch", "recompute", "measured_mib"),
    [(4, "none", 1350), (16, "none", 4173), (16, "full", 1613)],
)
def test_the_peak_is_within_a_tenth_of_the_measured_one(micro_batch, recompute, measured_mib):
    """Measured on a CPU in fp32 by benchmarks/plan_memory.py."""
    model = size_decoder(parse_sizes(SMALL), 512, "fp32", "small")
    found = estimate_memory(model, Step(Degrees(), micro_batch, recompute, foreach=False))
    assert found.peak / 2**20 == pytest.approx(measured_mib, rel=0.1)


def test_shards_divide_parameters_gradients_and_optimizer_state():
    whole = estimate_memory(llama(), Step(Degrees(dp=8), 1, "full")).parts
    parts = estimate_memory(llama(), Step(Degrees(fsdp=8), 1, "full")).parts
    assert parts["parameters"] == pytest.approx(whole["parameters"] / 8)
    assert parts["optimizer"] == pytest.approx(whole["optimizer"] / 8)


def test_the_simplest_mesh_that_holds_model_and_activations_is_planned():
    plan = plan_training(llama(), Request(H100))
    assert str(plan.step.degrees) == "dp=2,fsdp=4"
    assert [mesh for mesh, _ in plan.rejected] == ["dp=8", "dp=4,fsdp=2"]


def test_a_model_that_fits_on_no_mesh_is_refused_with_what_each_mesh_needs():
    with pytest.raises(PlanError, match=r"does not fit.*\n.*mesh fsdp=8: needs"):
        plan_training(
            size_decoder(
                parse_sizes("layers=80,width=8192,heads=64,kv_heads=8,ffn=28672,vocab=128256"), 4096, "bf16", "70B"
            ),
            Request(H100),
        )


def test_a_global_batch_is_split_into_micro_batches_of_equal_size():
    plan = plan_training(llama(), Request(H100, nodes=2, global_batch=64))
    assert plan.step.micro_batch * plan.step.accumulate * plan.step.degrees.data_ranks == 64


def test_the_published_rate_of_llama_3_8b_on_eight_h100_is_met_at_its_efficiency():
    """torchtitan: 5,762 tokens a second and GPU with FSDP at 8,192 tokens, 36 % of the peak."""
    step = Step(Degrees(fsdp=8), 1)
    found = estimate_step(llama(8192), step, H100, "bf16", efficiency=0.36)
    assert found.tokens_per_second / 8 == pytest.approx(5762, rel=0.1)


def test_the_verb_prints_the_plan_with_assumptions_and_cost(capsys):
    assert main(["plan", LLAMA_8B, "--tokens", "1e11", "--price", "2", "-o", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["cost"]["price"] == pytest.approx(answer["cost"]["gpu_hours"] * 2)
    assert answer["memory"]["peak"] == sum(answer["memory"]["parts"].values()) <= answer["memory"]["usable"]
    assert any("not run on a GPU" in each for each in answer["assumptions"])


def test_the_verb_refuses_a_module_without_the_shape_of_its_input(capsys):
    assert main(["plan", "model.py:build"]) == 2
    assert "--input" in capsys.readouterr().err


def test_a_faster_mesh_after_the_first_that_fits_is_named():
    plan = plan_training(llama(6144), Request(H100, 1))
    rates = [each.time.tokens_per_second for each in plan.faster]
    assert str(plan.step.degrees) == "dp=2,fsdp=4"
    assert [str(each.step.degrees) for each in plan.faster] == ["fsdp=8"]
    assert min(rates) > plan.time.tokens_per_second


def test_a_model_that_does_not_fit_is_refused_with_a_number_of_nodes_that_suffices():
    shape = parse_sizes("layers=80,width=8192,heads=64,kv_heads=8,ffn=28672,vocab=128256")
    model = size_decoder(shape, 4096, "bf16", "70b")
    with pytest.raises(PlanError) as raised:
        plan_training(model, Request(H100, 1))
    nodes = int(str(raised.value).rpartition("-N ")[2])
    assert plan_training(model, Request(H100, nodes)).memory.peak <= Request(H100, nodes).room
    with pytest.raises(PlanError):
        plan_training(model, Request(H100, nodes // 2))


def test_a_sample_that_no_number_of_nodes_holds_is_refused_with_another_fix():
    shape = parse_sizes(LLAMA_8B)
    with pytest.raises(PlanError, match="more such nodes do not help"):
        plan_training(size_decoder(shape, 1_000_000, "bf16", "long"), Request(H100, 1))


@pytest.mark.parametrize(
    "config", [{"architectures": ["BertForMaskedLM"]}, {"architectures": ["ViTModel"]}, {"is_encoder_decoder": True}]
)
def test_a_configuration_of_no_decoder_is_refused(config):
    with pytest.raises(PlanError, match=r"no decoder; name a module as file\.py:name instead"):
        _decoder_of({**CONFIG, **config}, "config.json")


def test_shared_experts_count_and_unmodelled_fields_are_named():
    config = {**CONFIG, "n_routed_experts": 8, "num_experts_per_tok": 2, "n_shared_experts": 1, "kv_lora_rank": 512}
    shape, _ = _decoder_of(config, "config.json")
    assert (shape.experts, shape.active, shape.unmodelled) == (9, 3, ("kv_lora_rank",))


def test_a_missing_configuration_is_refused_with_what_can_be_named(tmp_path):
    with pytest.raises(PlanError, match=r"No such file or directory; name a config.json, its folder, file.py:name"):
        read_decoder(tmp_path / "none.json")
