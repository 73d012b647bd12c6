"""The live page: one process beside the measured servers, which watches all of them.

It shares nothing with them but the machine: their metrics are read from files, their stores
read-only, so the page goes on when no worker answers any more.
"""
