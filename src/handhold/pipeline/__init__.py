"""What happens to a call, step by step. Start reading at `executor.py`."""
