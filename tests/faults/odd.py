"""A case-insensitive file system whose files do not report their size: `odd.py FOLDER OWNER`.

Not every kernel has such a file system, so this one is served by a process. It is read-only.
"""

import errno
import stat
import struct
import sys

from tests.backends.shell import hanging

TREE = {
    1: (None, {b".git": 2, b"src": 3, b"unsized": 5, b"endless": 6}),
    2: (None, {b"config": 4}),
    3: (None, {}),
    4: (b"[core]\n", {}),
    5: (b"".join(b"line %d\n" % n for n in range(1, 50_001)), {}),
    6: (b"", {}),
}
UNSIZED, ENDLESS = 5, 6


def attributes(node: int) -> bytes:
    content = TREE[node][0]
    mode = stat.S_IFDIR | 0o755 if content is None else stat.S_IFREG | 0o644
    size = 0 if content is None or node in (UNSIZED, ENDLESS) else len(content)
    return struct.pack("<6Q10I", node, size, 1, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def looked_up(node: int, body: bytes) -> bytes | int:
    child = TREE[node][1].get(body.rstrip(b"\0").lower())
    return errno.ENOENT if child is None else struct.pack("<4Q2I", child, 1, 0, 0, 0, 0) + attributes(child)


def read(node: int, body: bytes) -> bytes:
    _, offset, size = struct.unpack_from("<QQI", body)
    return b"x" * size if node == ENDLESS else (TREE[node][0] or b"")[offset : offset + size]


def listed(node: int, body: bytes) -> bytes:
    _, offset, _ = struct.unpack_from("<QQI", body)
    names = list(TREE[node][1].items())[offset:]
    return b"".join(
        struct.pack("<QQII", child, offset + n, len(name), 8) + name.ljust(-(-len(name) // 8) * 8, b"\0")
        for n, (name, child) in enumerate(names, 1)
    )


if __name__ == "__main__":
    hanging.attributes = attributes
    hanging.OWNER = int(sys.argv[2])
    hanging.ANSWERS |= {hanging.LOOKUP: looked_up, hanging.READ: read, hanging.READDIR: listed}
    hanging.main(sys.argv[1])
