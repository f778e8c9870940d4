"""What may happen, judged on what a call would do."""
