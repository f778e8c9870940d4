"""What a client's transcript of its session says of a call: whether it has a result.

Clients that deny a call say so to the model and run no hook. Without this, its window would stay open, and what later
calls change would be booked with it.
"""

import os

from handhold.logs import log_swallowed

MAX_READ_BYTES = 4 * 1024 * 1024  # from the end
RESULT_MARKS = (b"call_output", b"tool_result")  # in the line of a result, whatever the client


def has_result(transcript: str, call_id: str) -> bool:
    """Whether a line near the end is the result of this call. False if the file cannot be read."""
    name = f'"{call_id}"'.encode()
    try:
        with open(transcript, "rb") as file:  # noqa: PTH123
            file.seek(max(0, os.fstat(file.fileno()).st_size - MAX_READ_BYTES))
            text = file.read(MAX_READ_BYTES)
    except OSError:
        log_swallowed()
        return False
    return any(name in line and any(mark in line for mark in RESULT_MARKS) for line in text.splitlines())
