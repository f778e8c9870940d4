"""The uplink: ships the journal of a sandbox, and the contents that it names, to a hub."""
