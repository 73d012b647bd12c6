"""The carriers' books against ours: what was sold, and to whom."""
