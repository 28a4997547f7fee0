"""The model files on this machine: which there are, where they come from, which one is used."""
