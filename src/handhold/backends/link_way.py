"""The links that a path leads through. Whoever replaces one of them changes what the path means."""

import errno
import os

MAX_LINKS = 40  # as many as the kernel follows


def find_links_on_way(path: str) -> list[str]:
    """Each link by where it is itself, in their order; after them what is missing, where the way ends."""
    found: list[str] = []
    place, pending = "/", path.split("/")[::-1]
    while pending and len(found) < MAX_LINKS:
        name = pending.pop()
        if name in ("", "."):
            continue
        if name == "..":
            place = os.path.dirname(place)
            continue
        there = os.path.join(place, name)
        try:
            target = os.readlink(there)
        except OSError as error:
            if error.errno == errno.ENOENT:
                return [*found, there]
            place = there  # no link
            continue
        found.append(there)
        pending += target.split("/")[::-1]
        if target.startswith("/"):
            place = "/"
    return found
