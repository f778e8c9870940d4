"""Opens files for writing while another thread changes the path between the check and its use.

`python path_flipper.py HARMLESS VICTIM…`: both paths of a pair must be equally long. Runs as a command under test, with
whatever Python the machine has.
"""

import ctypes
import os
import sys
from threading import Thread

TRIES = 40


def main(harmless: bytes, victims: list[bytes]) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    path = ctypes.create_string_buffer(max(map(len, (harmless, *victims))) + 1)
    now = [harmless]
    running = True

    def flip() -> None:
        while running:
            ctypes.memmove(path, now[0] + b"\0", len(now[0]) + 1)
            ctypes.memmove(path, harmless + b"\0", len(harmless) + 1)

    flipper = Thread(target=flip)
    flipper.start()
    opened = 0
    for victim in victims:
        now[0] = victim
        for _ in range(TRIES):
            fd = libc.open(path, os.O_WRONLY | os.O_TRUNC)
            if fd >= 0:
                opened += 1
                os.write(fd, b"flipped")
                os.close(fd)
            libc.chmod(path, 0o777)
    running = False
    flipper.join()
    sys.stdout.write(f"opened {opened}\n")


main(os.fsencode(sys.argv[1]), list(map(os.fsencode, sys.argv[2:])))
