"""Answers whose text is drawn with memory in mind (GUARANTEE §5)."""
