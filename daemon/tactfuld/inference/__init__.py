"""Text out of public input: the local model, its prompt, and the embedder that scoring uses.

Nothing is re-exported here: importing this package must not load llama.cpp or numpy.
"""
