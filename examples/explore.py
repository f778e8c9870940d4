"""How an agent explores a folder: list, glob, grep, read. From structure to detail, one page at a time.

    python examples/explore.py [FOLDER [TEXT]]

It searches for TEXT (default "def ") in the Python files of FOLDER. Without a folder it creates a small one.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from handhold import Reply, Toolbox

SHOP = {
    ".gitignore": "*.log\n",
    "README.md": "# A shop\n",
    "shop/cart.py": "class Cart:\n    def total(self) -> int:\n        return sum(self.prices)\n",
    "shop/tax.py": "RATE = 19\n\n\ndef with_tax(price: int) -> int:\n    return price * (100 + RATE) // 100\n",
    "shop/sales.log": "sold nothing\n",
}


def explore(box: Toolbox, text: str) -> None:
    ask(box, "list_files", depth=2)
    files = ask(box, "glob", pattern="**/*.py", limit=5)
    lines = ask(box, "grep", pattern=text, glob="*.py", mode="content", limit=5)
    if lines.data["matches"]:
        first = lines.data["matches"][0]
        ask(box, "read_file", path=first["path"], offset=max(1, first["line"] - 3), limit=10)
    elif files.data["paths"]:
        ask(box, "read_file", path=files.data["paths"][0], limit=10)


def ask(box: Toolbox, tool: str, **arguments: Any) -> Reply:
    """Print what a model would send, and what it would read."""
    reply = box.call(tool, arguments)
    told = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
    print(f"> {tool}({told})\n{reply.text}\n")
    return reply


def main(folder: str = "", text: str = "def ") -> None:
    with TemporaryDirectory() as scratch:
        root = Path(folder or f"{scratch}/shop")
        if not folder:
            for name, content in SHOP.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(content, encoding="utf-8")
        with Toolbox.open(root, state=f"{scratch}/state") as box:
            explore(box, text)


if __name__ == "__main__":
    main(*sys.argv[1:])
