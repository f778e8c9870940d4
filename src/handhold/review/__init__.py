"""The review page: what runs, what waits for an answer, and what happened, in a browser on this machine."""
