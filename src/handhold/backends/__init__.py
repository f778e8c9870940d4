"""Effects: implementations of the core's ports."""
