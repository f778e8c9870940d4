"""Policies: decide whether what a call would do is allowed, asked about or denied."""
