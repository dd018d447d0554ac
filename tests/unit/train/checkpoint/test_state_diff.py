from windlass.train.checkpoint.state_diff import compare_states, describe
from windlass.train.checkpoint.store.manifest import OBJECT, TensorFact

SAVED = {"a": TensorFact((2, 3), "float32"), "b": TensorFact((4,), "float32"), "lr": TensorFact((), OBJECT)}


def test_equal_names_and_shapes_are_the_same_model():
    assert not compare_states(SAVED, dict(SAVED))


def test_another_dtype_is_the_same_model():
    assert not compare_states(SAVED, {**SAVED, "a": TensorFact((2, 3), "bfloat16")})


def test_different_names_and_shapes_are_described_by_kind():
    wanted = {"a": TensorFact((3, 2), "float32"), "c": TensorFact((1,), "float32"), "lr": SAVED["lr"]}
    assert describe(compare_states(SAVED, wanted)) == (
        "1 the model has and the checkpoint lacks: c\n"
        "1 the checkpoint has and the model lacks: b\n"
        "1 have another shape (saved → wanted): a [2, 3] → [3, 2]"
    )


def test_a_description_has_the_first_ten_names():
    wanted = {**SAVED, **{f"layer.{number:02}": TensorFact((), "float32") for number in range(37)}}
    message = describe(compare_states(SAVED, wanted))
    assert message.startswith("37 the model has and the checkpoint lacks: layer.00, layer.01,")
    assert message.endswith("layer.09 and 27 more")


def test_a_tensor_differs_from_a_number():
    assert compare_states(SAVED, {**SAVED, "lr": TensorFact((), "float32")})
