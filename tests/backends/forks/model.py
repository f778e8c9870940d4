"""An independent model of forks and of three-way merging: trees are dicts, and nothing touches a disk.

The operations are shell commands for the real thing, and functions on a dict for the model. A line of a text is unique,
and no operation moves lines, so that there is only one way to align two versions of a text.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import count
from random import Random

Node = tuple[str, str | int | tuple[str, ...], int]  # kind, content, mode
Tree = dict[str, Node]
NAMES = ("a", "b", "c", "d", "e")


def above(path: str) -> Iterator[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def below(tree: Tree, path: str) -> list[str]:
    return [each for each in tree if each == path or each.startswith(f"{path}/")]


class Conflict(Exception):
    pass


@dataclass
class Operation:
    """`command` for a shell, in the root; `apply` for a tree, which returns the paths that it touched."""

    command: str
    apply: Callable[[Tree], set[str]]
    moved: tuple[str, str] = "", ""  # from where to where


class Operations:
    """Random operations that succeed on a given tree."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._lines = count()

    def make(self, tree: Tree) -> Operation:
        files = [path for path, (kind, _, _) in tree.items() if kind == "file"]
        folders = [path for path, (kind, _, _) in tree.items() if kind == "folder"]
        makers: list[Callable[[], Operation]] = [lambda: self._create(tree, folders)] * 3
        if files:
            makers += [lambda: self._edit(tree, self._random.choice(files))] * 6
            makers += [lambda: self._chmod(tree, self._random.choice(files))]
        if tree:
            makers += [lambda: self._delete(tree, self._random.choice(list(tree)))] * 2
            makers += [lambda: self._rename(tree, self._random.choice(list(tree)), folders)]
        return self._random.choice(makers)()

    def _free(self, tree: Tree, folders: list[str]) -> str:
        """A path in one of these folders that nobody has: often one that another version of the tree has."""
        for _ in range(10):
            path = f"{self._random.choice([*folders, ''])}/{self._random.choice(NAMES)}".lstrip("/")
            if path not in tree:
                return path
        return f"n{next(self._lines)}"

    def _create(self, tree: Tree, folders: list[str]) -> Operation:
        path, what = self._free(tree, folders), self._random.choice(("file", "file", "folder", "link"))
        node: Node
        if what == "folder":
            node, command = ("folder", "", 0o755), f"mkdir {path}"
        elif what == "link":
            target = f"to{next(self._lines)}"
            node, command = ("link", target, 0o777), f"ln -s {target} {path}"
        else:
            lines = tuple(f"line {next(self._lines)}" for _ in range(self._random.randint(1, 8)))
            node, command = ("file", lines, 0o644), _write(path, lines)

        def apply(tree: Tree) -> set[str]:
            tree[path] = node
            return {path}

        return Operation(command, apply)

    def _edit(self, tree: Tree, path: str) -> Operation:
        kind, content, mode = tree[path]
        assert isinstance(content, tuple)
        lines, at = list(content), self._random.randrange(len(content) + 1)
        how = self._random.choice(("insert", "replace", "replace", "delete"))
        if how == "insert" or at == len(lines) or (how == "delete" and len(lines) == 1):
            lines[at:at] = [f"line {next(self._lines)}"]
        elif how == "replace":
            lines[at] = f"line {next(self._lines)}"
        else:
            del lines[at]
        in_place = self._random.random() < 0.5
        after: Node = kind, tuple(lines), mode

        def apply(tree: Tree) -> set[str]:
            tree[path] = after
            return {path}

        if in_place:
            return Operation(_write(path, lines), apply)
        new = f"{_write('new-file', lines)}; chmod {mode:o} new-file; mv -f new-file {path}"
        return Operation(new, apply)

    def _chmod(self, tree: Tree, path: str) -> Operation:
        mode = self._random.choice((0o600, 0o640, 0o700, 0o755))

        def apply(tree: Tree) -> set[str]:
            tree[path] = (*tree[path][:2], mode)
            return {path}

        return Operation(f"chmod {mode:o} {path}", apply)

    def _delete(self, tree: Tree, path: str) -> Operation:
        def apply(tree: Tree) -> set[str]:
            gone = below(tree, path)
            for each in gone:
                del tree[each]
            return {*gone}

        return Operation(f"rm -r {path}", apply)

    def _rename(self, tree: Tree, path: str, folders: list[str]) -> Operation:
        new = self._free(tree, [each for each in folders if each != path and not each.startswith(f"{path}/")])

        def apply(tree: Tree) -> set[str]:
            moved = {each: tree.pop(each) for each in below(tree, path)}
            tree.update({new + each.removeprefix(path): node for each, node in moved.items()})
            return {*moved, *(new + each.removeprefix(path) for each in moved)}

        return Operation(f"mv -T {path} {new}", apply, (path, new))


def _write(path: str, lines: list[str] | tuple[str, ...]) -> str:
    return f"printf '%s\\n' {' '.join(repr(line) for line in lines)} >{path}"


@dataclass
class ModelFork:
    """What a fork changed: by path, what it started from and what it has. Below `hidden`, nothing of the base shows."""

    ancestors: dict[str, Node | None] = field(default_factory=dict[str, "Node | None"])
    own: dict[str, Node | None] = field(default_factory=dict[str, "Node | None"])
    hidden: set[str] = field(default_factory=set[str])

    def view(self, base: Tree) -> Tree:
        seen = {
            path: node
            for path, node in base.items()
            if path not in self.own and self.hidden.isdisjoint((path, *above(path)))
        }
        seen |= {path: node for path, node in self.own.items() if node is not None}
        # Where the fork has something else than a folder, nothing of the base is below.
        return {
            path: node
            for path, node in seen.items()
            if all(seen.get(each, ("",))[0] == "folder" for each in above(path))
        }

    def run(self, base: Tree, operations: list[Operation]) -> None:
        before = self.view(base)
        after, changed = dict(before), set[str]()
        for operation in operations:
            touched = operation.apply(after)
            changed |= touched
            source, target = operation.moved
            # A folder that the fork made and renamed hides what the base gets there; one of the base is copied instead.
            if target and after[target][0] == "folder" and source not in base:
                self.hidden.add(target)
            for path in sorted(
                touched | {each for one in touched for each in above(one)}
            ):  # an overlay copies those above
                self.own.setdefault(path, None)
                self.ancestors.setdefault(path, before.get(path))
                if path in base and path not in after:
                    self.hidden.add(path)
        for path in list(self.own):
            self.own[path] = after.get(path)
            is_hidden = not self.hidden.isdisjoint(above(path))
            # Deleting what the base does not have leaves nothing behind: the fork is there as the base is.
            if self.own[path] is None and path in changed and path not in base and not is_hidden:
                del self.own[path], self.ancestors[path]
                self.hidden.discard(path)

    def merge(self, base: Tree) -> Tree:
        """The base after the merge. Conflict if a path cannot be decided."""
        merged = dict(base)
        for path, ours in self.own.items():
            old, theirs = self.ancestors[path], base.get(path)
            if ours in (theirs, old):
                continue
            if theirs != old:
                ours = merge_nodes(old, ours, theirs)
            merged.pop(path, None)
            if ours is not None:
                merged[path] = ours
        view = self.view(base)
        for path in sorted(merged):
            for each in above(path):  # a folder that is needed is there, or comes back
                if each not in merged:
                    if merged[path] == base.get(path):  # what stays keeps its folder
                        merged[each] = base[each]
                    elif view.get(each, ("",))[0] == "folder":
                        merged[each] = view[each]
                if merged.get(each, ("",))[0] != "folder":
                    raise Conflict(path)
        return merged


def merge_nodes(old: Node | None, ours: Node | None, theirs: Node | None) -> Node:
    if old is None or ours is None or theirs is None or not old[0] == ours[0] == theirs[0] == "file":
        raise Conflict
    modes, mode = {ours[2], theirs[2]} - {old[2]}, old[2]
    if len(modes) > 1:
        raise Conflict
    mode = modes.pop() if modes else mode
    sides = old[1], ours[1], theirs[1]
    assert all(isinstance(each, tuple) for each in sides)
    return "file", merge_lines(*sides), mode  # pyright: ignore[reportArgumentType]


def merge_lines(old: tuple[str, ...], ours: tuple[str, ...], theirs: tuple[str, ...]) -> tuple[str, ...]:
    """As `git merge-file` does it: changes that touch each other conflict, unless they are equal."""

    def changes(new: tuple[str, ...]) -> list[tuple[int, int, tuple[str, ...]]]:
        codes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
        return [(i1, i2, new[j1:j2]) for tag, i1, i2, j1, j2 in codes if tag != "equal"]

    left, right = changes(ours), changes(theirs)
    every = {*left, *right}
    for one in left:
        for other in right:
            if one != other and one[0] <= other[1] and other[0] <= one[1]:
                raise Conflict
    result, at = list[str](), 0
    for start, end, new in sorted(every):
        result += [*old[at:start], *new]
        at = end
    return (*result, *old[at:])
