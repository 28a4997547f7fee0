"""The policy: which memory exists, what is promised about it, and who may ask."""
