"""Experiments: what the promises come to in numbers. In no wheel; nothing imports it."""
