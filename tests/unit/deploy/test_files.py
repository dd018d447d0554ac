from pathlib import Path

from windlass.deploy.files import GENERATED, files

FOLDER = Path(__file__).parents[3] / "deploy"


def test_the_files_equal_the_generated_ones():
    for name, text in files().items():
        assert (FOLDER / name).read_text() == text, f"{name} is old: run python tools/write_deployment.py"


def test_no_generated_file_is_left_over():
    there = {str(path.relative_to(FOLDER)) for folder in GENERATED for path in (FOLDER / folder).rglob("*.*")}
    assert there <= files().keys()
