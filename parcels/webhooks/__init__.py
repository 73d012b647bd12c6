"""Sending webhooks: the body, its signatures, and a connection that reaches only allowed addresses.

No database here: `parcels.services.webhooks` decides what is sent when.
"""
