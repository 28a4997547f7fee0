"""A small real app: asks tactful what to eat and keeps a menu book of the answers."""
