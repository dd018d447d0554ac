"""A lab of one file, for tests of the engine: `answer.txt` has to contain 42."""

from windlass.labs.lab_description import read_description

FILES = {
    "lab.yaml": "id: a7\ntitle: Answers\nmodule: A\ngoal: Write the answer.\nminutes: 5\n",
    "text.md": "# A7: Answers\n\n```sh\necho 42 > answer.txt\n```\n",
    "hints.md": "## 1\n\nThink.\n\n## 2\n\nThink again.\n\n## 3\n\nIt is 42.\n",
    "start/answer.txt": "41\n",
    "start/data/note.txt": "kept\n",
    "setup.sh": "echo set up >> setup.log\n",
    "solution/solve.sh": 'cp "$WINDLASS_LAB_FILES/solution/answer.txt" .\n',
    "solution/answer.txt": "42\n",
    "mistakes/more.sh": "# refused: try 42\necho 43 > answer.txt\n",
    "check.py": """
from windlass.labs.evidence.findings import Finding

def check(lab):
    yield Finding(True, "the lab is started")
    text = lab.file("answer.txt")
    yield Finding((text or "").strip() == "42", "the answer is right", "try 42")
""",
}


def small_lab(catalog, **changed):
    """Writes the lab into a catalog and returns its description. `changed`: other contents by name without suffix."""
    folder = catalog / "a7_answers"
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(changed.get(path.stem, text))
    return read_description(folder)
