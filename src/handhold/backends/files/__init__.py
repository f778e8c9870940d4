"""The workspace on disk: reads and changes files below its roots, and nowhere else."""
