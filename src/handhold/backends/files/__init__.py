"""The workspace on a disk: reading and changing files beneath its roots and nowhere else."""
