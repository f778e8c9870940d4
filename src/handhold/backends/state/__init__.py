"""What outlives the process: journal, contents, and what each session has seen."""
