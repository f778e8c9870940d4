"""Sixty calls of an ordinary coding task, in the order in which they were made: look, test, edit, format, commit."""

from pathlib import Path
from typing import Any

REPOSITORY = {
    "src/cart.py": '"""A cart."""\n\n\ndef total(prices):\n    return sum(prices)\n\n\ndef discount(price, percent):\n'
    "    return price - price * percent\n",
    "src/format.py": 'def money(amount):\n    return "%.2f" % amount\n',
    "src/report.py": "from cart import total\nfrom format import money\n\n\ndef line(prices):\n    return money(total(prices))\n",
    "tests/test_cart.py": "import sys\nimport unittest\n\nsys.path.insert(0, 'src')\nfrom cart import discount, total\n\n\n"
    "class Cart(unittest.TestCase):\n    def test_total(self):\n        self.assertEqual(total([1, 2]), 3)\n\n"
    "    def test_discount(self):\n        self.assertEqual(discount(100, 10), 90)\n\n\nif __name__ == '__main__':\n    unittest.main()\n",
    "scripts/tidy.py": "import pathlib\n\nfor path in pathlib.Path('src').glob('*.py'):\n    text = path.read_text()\n"
    "    path.write_text('\\n'.join(line.rstrip() for line in text.split('\\n')))\n",
    "README.md": "# Shop\n\nTODO: describe discounts.\n",
    "requirements.txt": "attrs\n",
    "Makefile": "test:\n\tpython3 -m unittest discover -q -s tests\n",
    ".gitignore": "__pycache__/\nbuild/\n",
    "build/old.txt": "built\n",
}


def bash(command: str) -> tuple[str, dict[str, Any]]:
    return "bash", {"command": command}


def read(path: str) -> tuple[str, dict[str, Any]]:
    return "read_file", {"path": path}


def edit(path: str, old: str, new: str) -> tuple[str, dict[str, Any]]:
    return "edit_file", {"path": path, "old_string": old, "new_string": new}


def write(path: str, content: str) -> tuple[str, dict[str, Any]]:
    return "write_file", {"path": path, "content": content}


CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("list_files", {"path": "."}),
    bash("git status --porcelain"),
    bash("git log --oneline -5"),
    ("glob", {"pattern": "**/*.py"}),
    ("grep", {"pattern": "discount", "mode": "content"}),
    read("src/cart.py"),
    read("tests/test_cart.py"),
    bash("python3 -m unittest discover -q -s tests 2>&1 | tail -20"),
    edit("src/cart.py", "price * percent", "price * percent / 100"),
    bash("python3 -m unittest discover -q -s tests"),
    bash("git diff"),
    bash("git checkout -q -b discounts"),
    bash("git add -A && git commit -q -m 'Take a discount in per cent'"),
    read("src/format.py"),
    edit("src/format.py", '"%.2f" % amount', 'f"{amount:.2f}"'),
    read("src/report.py"),
    write("src/tax.py", "def with_tax(amount, rate):   \n    return amount * (1 + rate)\n"),
    bash("python3 scripts/tidy.py && git diff --stat"),
    bash("cat src/tax.py"),
    bash("wc -l src/*.py"),
    write("tests/test_tax.py", "import sys\nimport unittest\n\nsys.path.insert(0, 'src')\nfrom tax import with_tax\n"),
    bash("make test"),
    edit("tests/test_tax.py", "import with_tax\n", "import with_tax\n\nassert with_tax(100, 0.2) == 120\n"),
    bash("python3 tests/test_tax.py"),
    bash("pip install -r requirements.txt"),
    ("grep", {"pattern": "TODO", "path": "."}),
    read("README.md"),
    edit("README.md", "TODO: describe discounts.", "Discounts are in per cent."),
    bash("grep -rn 'TODO' src tests | head -5"),
    bash("find . -name '*.pyc' -newer README.md -not -path './.git/*' | wc -l"),
    bash("sed -i 's/A cart/A cart and its discounts/' src/cart.py"),
    bash("head -3 src/cart.py"),
    bash("mkdir -p docs && cp README.md docs/index.md"),
    write("docs/tax.md", "# Tax\n\nA rate is a fraction.\n"),
    bash("ls -la docs 2>/dev/null"),
    bash("git add docs && git commit -q -m 'Write about tax'"),
    bash("rm -rf ./build/"),
    bash("python3 -m compileall -q src"),
    bash("git stash list; git stash -q && git stash pop -q"),
    (
        "multi_edit",
        {"path": "src/tax.py", "edits": [{"old_string": "rate", "new_string": "share", "replace_all": True}]},
    ),
    bash("python3 -m unittest discover -q -s tests"),
    bash("diff src/cart.py src/tax.py | head -3; true"),
    bash("mv src/format.py src/formats.py && sed -i 's/from format /from formats /' src/report.py"),
    bash("python3 --version"),
    bash("git mv src/report.py src/reports.py 2>/dev/null || mv src/report.py src/reports.py"),
    read("src/reports.py"),
    edit("src/reports.py", "def line(prices):", "def receipt_line(prices):"),
    bash('for f in src/*.py; do python3 -m py_compile "$f" || exit 1; done'),
    bash("pip install pytest"),
    (
        "apply_patch",
        {
            "patch": "*** Begin Patch\n*** Add File: CHANGES.md\n+# Changes\n+\n+- Discounts in per cent.\n*** End Patch\n"
        },
    ),
    bash("git add -A; git status --short | head"),
    bash("git commit -q -m 'Receipts'"),
    bash("git show --stat HEAD | tail -3"),
    bash("tail -n 2 CHANGES.md"),
    bash("touch src/__init__.py && echo 'VERSION = 2' >> src/__init__.py"),
    bash("sort -u requirements.txt > requirements.sorted && mv requirements.sorted requirements.txt"),
    bash("python3 -m unittest discover -q -s tests && git commit -qam 'Sorted'"),
    bash("git log --oneline | wc -l"),
    bash("git push origin discounts"),
    ("list_files", {"path": "src"}),
)


def lay(folder: Path) -> None:
    for name, text in REPOSITORY.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
