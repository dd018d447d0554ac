"""The name that pip knows for a module that a program lacks."""

import pytest

from windlass.diagnose.failures.missing_packages import distribution_values


@pytest.mark.parametrize(
    ("values", "distribution"),
    [
        ({"package": "flash_attn"}, "flash-attn"),
        ({"package": "cv2"}, "opencv-python-headless"),
        ({"old": "sklearn.metrics"}, "scikit-learn"),
        ({"package": "google.protobuf"}, "protobuf"),
        ({"run": "torch.distributed.run"}, "torch"),
        ({"metadata": "huggingface_hub"}, "huggingface-hub"),
        ({"please": "wandb"}, "wandb"),
    ],
)
def test_a_known_module_has_the_distribution_to_install(values, distribution):
    assert distribution_values(values) == {"distribution": distribution, "install": distribution}


def test_an_unknown_module_is_looked_for_and_not_installed():
    assert distribution_values({"package": "my_tools.data"}) == {"distribution": "my_tools"}


def test_a_word_that_is_no_name_is_left_out():
    assert distribution_values({"package": "$(reboot)"}) == {}
    assert distribution_values({}) == {}
