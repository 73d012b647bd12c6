"""The fault suite: break something, then count in the journals what was lost or bought twice.

Black-box: it knows the API, the tables (read only) and the simulator's control API.
"""
