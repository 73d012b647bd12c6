"""Engines that an installation may have beneath: tests and faults start their own."""
