"""Forks: lasting overlays of a workspace, and what it takes to merge them."""
