"""The calls of clients, in each dialect that they use."""

import os
from collections.abc import Callable
from typing import Any


def patch(file: str, mark: str) -> str:
    return f"*** Begin Patch\n*** Update File: {file}\n@@\n-END\n+{mark}\n+END\n*** End Patch\n"


def one_more(mark: str) -> dict[str, str]:
    return {"old_string": "END\n", "new_string": f"{mark}\nEND\n"}


Words = dict[str, Callable[..., tuple[str, dict[str, Any]]]]

WORDS: dict[str, Words] = {
    "handhold": {
        "read": lambda path: ("read_file", {"path": path}),
        "reads": lambda path: ("read_files", {"paths": [path, os.path.dirname(path) + "/*.ipynb"]}),
        "list": lambda path: ("list_files", {"path": path}),
        "glob": lambda path: ("glob", {"pattern": "**/*.txt", "path": path}),
        "grep": lambda path: ("grep", {"pattern": "<c[0-9]*-1", "path": path, "regex": True, "limit": 20}),
        "write": lambda path, text: ("write_file", {"path": path, "content": text}),
        "edit": lambda path, mark: ("edit_file", {"path": path, **one_more(mark)}),
        "edits": lambda path, mark: ("multi_edit", {"path": path, "edits": [one_more(mark)]}),
        "patch": lambda path, mark: ("apply_patch", {"patch": patch(path, mark)}),
        "cell": lambda path, mark: ("notebook_edit", {"path": path, "action": "append", "source": mark}),
        "run": lambda command: ("bash", {"command": command}),
        "start": lambda command: ("bash", {"command": command, "background": True}),
        "output": lambda job: ("bash_output", {"job": job}),
        "input": lambda job, text: ("bash_input", {"job": job, "text": text}),
        "stop": lambda job: ("bash_stop", {"job": job}),
    },
    "claude": {
        "read": lambda path: ("Read", {"file_path": path}),
        "list": lambda path: ("LS", {"path": path}),
        "glob": lambda path: ("Glob", {"pattern": "**/*.txt", "path": path}),
        "grep": lambda path: ("Grep", {"pattern": "<c[0-9]*-1", "path": path, "head_limit": 20}),
        "write": lambda path, text: ("Write", {"file_path": path, "content": text}),
        "edit": lambda path, mark: ("Edit", {"file_path": path, **one_more(mark)}),
        "edits": lambda path, mark: ("MultiEdit", {"file_path": path, "edits": [one_more(mark)]}),
        "cell": lambda path, mark: (
            "NotebookEdit",
            {"notebook_path": path, "new_source": mark, "cell_type": "code", "edit_mode": "insert"},
        ),
        "run": lambda command: ("Bash", {"command": command}),
        "start": lambda command: ("Bash", {"command": command, "run_in_background": True}),
        "output": lambda job: ("BashOutput", {"bash_id": job}),
        "stop": lambda job: ("KillShell", {"shell_id": job}),
    },
}
