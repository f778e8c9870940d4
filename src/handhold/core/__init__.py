"""Decides, and touches nothing: requests in, plans and results out."""
