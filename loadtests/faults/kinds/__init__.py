"""The faults, a file each. Each registers itself; nothing else lists them."""
