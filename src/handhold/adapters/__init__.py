"""The tools as frameworks want them: one file each, which loads its framework when it is used and not before."""
