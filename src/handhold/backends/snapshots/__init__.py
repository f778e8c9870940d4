"""Snapshots: what others change in a workspace is recorded, and can be undone, without confining who changes it."""
