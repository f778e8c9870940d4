"""Effects: what implements the ports of the core."""
