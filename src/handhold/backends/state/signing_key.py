"""A secret of the state folder: what is signed with it, only somebody who may read the folder could have signed."""

import os
from pathlib import Path
from secrets import token_hex

KEY_FILE = "server.key"
KEY_BYTES = 32


def load_or_create_key(folder: Path) -> bytes:
    """The one that is there, or a new one; of two that make it at once, the first counts."""
    file = folder / KEY_FILE
    while True:
        exists = file.exists()
        if exists and len(key := file.read_bytes()) == KEY_BYTES:
            return key
        made = folder / f"{KEY_FILE}.{token_hex(8)}"
        made.touch(mode=0o600, exist_ok=False)
        made.write_bytes(os.urandom(KEY_BYTES))
        try:
            if exists:  # a part of one proves nothing
                made.replace(file)
            else:
                os.link(made, file)  # whole or not at all, and never over another
        except FileExistsError:
            continue
        finally:
            made.unlink(missing_ok=True)
