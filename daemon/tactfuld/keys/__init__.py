"""The keys of a store: where they come from, where they lie, and how they are replaced."""
