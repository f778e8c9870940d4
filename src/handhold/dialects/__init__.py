"""Words: the names, schemas, limits and wording that each family of models was trained on."""
