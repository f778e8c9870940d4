"""Only the commit may change the workspace: finds every other place in the source that could.

A file can be changed by a mutating function of `os` or `shutil`, a mutating method of a
path, or a descriptor opened for writing. Two places may: the commit, and the state folder's own files. Others that
change something else than the workspace are listed one by one. (Ruff's PTH123 finds a bare `open()`.)

    python checks/file_writes.py [src/handhold]
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

MAY_WRITE = ("backends/files/commit", "backends/state/")
EXCEPTIONS = {
    "cli/leftovers.py": "empty folders that earlier versions left, for the person who asked to remove them",
    "cli/trial_command.py": "the folders of a command that is tried, in a temporary one",
    "backends/convert/worker_process.py": "a file in memory",
    "server/tokens.py": "the file of tokens, which lies in no root",
    "server/stdio_transport.py": "standard output, and the null device",
    "review/server.py": "a page in the state folder that leads the browser to the link",
    "testing.py": "workspaces for tests, in a folder of their own",
    "backends/files/staging_area.py": "the staging area",
    "backends/settings/client_config.py": "a client's own configuration, for the person who asked to enter us there",
    "backends/shell/presence.py": "a lock, in the state folder",
    "backends/shell/session_folders.py": "a link in /tmp to a folder in the state",
    "backends/shell/name_separation.py": "a file that a command changes, which gets an inode of its own first",
    "backends/shell/sandbox_support.py": "a file in memory",
    "backends/shell/user_namespace.py": "the ids of a user namespace",
    "backends/shell/shell_state.py": "a file in memory",
    "backends/shell/layer.py": "a command's own layer",
    "backends/shell/limits.py": "a control group",
    "backends/shell/masks.py": "what is laid over denied files, in the state folder",
    "backends/shell/seccomp_notify.py": "flags that a filter looks for",
    "backends/shell/result_store.py": "offloaded outputs",
    "backends/shell/overlay.py": "a command's own layer",
    "backends/shell/syscall_handler.py": "what a command that works on the workspace itself may do, done for it",
    "backends/shell/layer_extraction.py": "a command's own layer, and its slots",
    "backends/shell/overlay_xattrs.py": "a command's own layer",
    "backends/shell/brokered_run.py": "a command's own folder in the staging area",
    "backends/shell/brokered_launch.py": "git settings for commands, in the state folder",
    "backends/snapshots/capture.py": "slots of the staging area",
    "backends/snapshots/clone.py": "a copy in the baseline, or in a slot",
    "backends/snapshots/copies.py": "the copies of a baseline, in a folder of their own",
    "backends/forks/ancestors.py": "what a fork started from, in the state folder",
    "backends/forks/entries.py": "modes of folders in a fork's layer, to look into them",
    "backends/forks/fork_folder.py": "the folders of forks, in the state folder",
    "backends/forks/fork_store.py": "the folders of forks, in the state folder",
    "backends/forks/fork_mount.py": "a temporary folder in the state folder, to try a mount",
    "backends/forks/git_objects.py": "git objects, which are added as by a fetch",
    "backends/forks/merge_layer.py": "the layer of a merge",
    "backends/forks/text_merge.py": "copies to merge, in the folder of a fork",
    "hub/object_contents.py": "objects of the hub's bucket",
    "hub/request_bodies.py": "contents that a hub is being sent, in a temporary file",
    "hub/service.py": "the folder of a hub on one machine",
    "backends/shell/cleanup.py": "folders of sessions that nobody uses",
}
MODULES = {"shutil", "tempfile"}
FUNCTIONS = {
    *("chmod", "chown", "copy_file_range", "fchmod", "fchown", "ftruncate", "lchown", "link", "makedirs", "mkdir"),
    *("mkfifo", "mknod", "posix_fallocate", "pwrite", "pwritev", "remove", "removedirs", "removexattr", "rename"),
    *(
        "renames",
        "replace",
        "rmdir",
        "sendfile",
        "setxattr",
        "symlink",
        "truncate",
        "unlink",
        "utime",
        "write",
        "writev",
    ),
}
METHODS = {
    "chmod",
    "hardlink_to",
    "mkdir",
    "rename",
    "rmdir",
    "symlink_to",
    "touch",
    "unlink",
    "write_bytes",
    "write_text",
}
FLAGS = {"O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC", "O_APPEND", "O_TMPFILE"}
SYSCALLS = {"renameat2", "linkat", "unlinkat", "mkdirat"}


def main() -> int:
    source = Path(sys.argv[1] if len(sys.argv) > 1 else "src/handhold")
    found = [
        f"{file}:{line}: {what} changes files; only {' and '.join(MAY_WRITE)} may\n"
        for file in sorted(source.rglob("*.py"))
        if not (place := file.relative_to(source).as_posix()).startswith(MAY_WRITE) and place not in EXCEPTIONS
        for line, what in changes(ast.parse(file.read_text(encoding="utf-8")))
    ]
    sys.stdout.write("".join(found) or "Only the commit changes the workspace.\n")
    return bool(found)


def changes(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The lines that could change a file, with the call that does."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, name.name) for name in names if top(name.name) in MODULES)
            case ast.ImportFrom(module=str(module), names=names):
                yield from ((node.lineno, f"{module}.{name.name}") for name in names if writes(module, name.name))
            case ast.Attribute(value=ast.Name(id="os"), attr=name) if writes("os", name):
                yield node.lineno, f"os.{name}"
            case ast.Call(func=ast.Attribute(value=ast.Name(id="os"))):
                pass  # already checked above, by its name
            case ast.Call(func=ast.Attribute(attr=name)) if name in METHODS | SYSCALLS:
                yield node.lineno, f".{name}()"
            case ast.Call(func=ast.Attribute(attr="open"), args=[ast.Constant(value=str(mode)), *_]) if set(mode) & set(
                "wax+"
            ):
                yield node.lineno, f'.open("{mode}")'
            case _:
                pass


def top(module: str) -> str:
    return module.partition(".")[0]


def writes(module: str, name: str) -> bool:
    return top(module) in MODULES or (module == "os" and name in FUNCTIONS | FLAGS)


if __name__ == "__main__":
    sys.exit(main())
