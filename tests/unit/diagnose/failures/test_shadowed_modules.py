"""Files of a program that have the name of a library or of a module of Python, told from packages that do not fit."""

import io
from functools import partial

import pytest

from windlass.diagnose.diagnosis import RootCause
from windlass.diagnose.failures.engine import diagnose
from windlass.diagnose.failures.evidence import Evidence, LogSource

CIRCULAR = "(most likely due to a circular import)"


def verdict(*lines: str) -> RootCause | None:
    log = LogSource("rank0.log", partial(io.BytesIO, "\n".join(lines).encode()))
    return diagnose(Evidence([log], has_failed=True)).verdict


@pytest.mark.parametrize(
    ("file", "lines"),
    [
        ("/job/cuda.py", ["ImportError: cannot import name 'bindings' from 'cuda' (/job/cuda.py)"]),
        (
            "/job/random.py",
            [
                "Traceback (most recent call last):",
                '  File "/usr/lib/python3.11/tempfile.py", line 45, in <module>',
                "ImportError: cannot import name 'Random' from 'random' (/job/random.py)",
            ],
        ),
        (
            "/job/numpy.py",
            [
                "[rank0]: Traceback (most recent call last):",
                '[rank0]:   File "/job/train.py", line 1, in <module>',
                '[rank0]:   File "/job/numpy.py", line 2, in <module>',
                f"[rank0]: AttributeError: partially initialized module 'numpy' has no attribute 'zeros' {CIRCULAR}",
            ],
        ),
        (
            "/job/random.py",
            [
                "Traceback (most recent call last):",
                '  File "/opt/env/lib/python3.11/site-packages/torch/__init__.py", line 20, in <module>',
                '  File "/job/random.py", line 2, in <module>',
                f"AttributeError: partially initialized module 'torch' has no attribute 'nn' {CIRCULAR}",
            ],
        ),
        (
            "/job/random.py",
            [
                "module 'random' has no 'a' (consider renaming '/job/random.py' since it has the same name as",
            ],
        ),
        (
            "/job/datasets/__init__.py",
            [
                '  File "/job/train.py", line 1, in <module>',
                "ImportError: cannot import name 'load_dataset' from 'datasets' (/job/datasets/__init__.py)",
            ],
        ),
    ],
    ids=["message", "module of Python", "frame", "frame of another module", "Python 3.13", "folder"],
)
def test_a_file_of_the_program_that_shadows_a_module_is_named(file: str, lines: list[str]) -> None:
    found = verdict(*lines)
    assert found is not None
    assert (found.rule, found.cause) == ("module-shadowed", "module-shadowed")
    assert file in found.text
    assert found.fix.startswith(f"Rename the file {file},")


def test_a_package_that_is_none_is_shadowed_by_a_file_that_the_message_does_not_name() -> None:
    found = verdict("ModuleNotFoundError: No module named 'torch.nn'; 'torch' is not a package")
    assert found is not None
    assert found.text == "A file of the program shadows the module torch on rank 0."
    assert 'find_spec("torch")' in found.command


@pytest.mark.parametrize(
    "line",
    [
        "ImportError: cannot import name 'a' from 'datasets' (/opt/lib/python3.11/site-packages/datasets/__init__.py)",
        "ImportError: cannot import name 'a' from 'transformers' (/src/transformers/src/transformers/__init__.py)",
        "ImportError: cannot import name 'a' from 'torch' (/opt/pytorch/torch/__init__.py)",
        "ImportError: cannot import name 'a' from 'my_model' (/job/my_model.py)",
    ],
    ids=["installed", "sources", "sources of another name", "module of the program"],
)
def test_a_name_that_an_installed_library_or_the_program_lacks_is_no_shadow(line: str) -> None:
    found = verdict(line)
    assert found is not None
    assert found.cause != "module-shadowed"
