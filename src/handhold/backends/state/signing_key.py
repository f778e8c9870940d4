"""The state folder's signing key: only somebody who can read the folder can create its signatures."""

import os
from pathlib import Path
from secrets import token_hex

KEY_FILE = "server.key"
KEY_BYTES = 32


def load_or_create_key(folder: Path) -> bytes:
    """Load the key or create one; of two processes that create it at once, the first wins."""
    file = folder / KEY_FILE
    while True:
        exists = file.exists()
        if exists and len(key := file.read_bytes()) == KEY_BYTES:
            return key
        made = folder / f"{KEY_FILE}.{token_hex(8)}"
        made.touch(mode=0o600, exist_ok=False)
        made.write_bytes(os.urandom(KEY_BYTES))
        try:
            if exists:  # an incomplete key is worthless
                made.replace(file)
            else:
                os.link(made, file)  # atomic, and never replaces another
        except FileExistsError:
            continue
        finally:
            made.unlink(missing_ok=True)
