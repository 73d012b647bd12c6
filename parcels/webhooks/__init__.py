"""Sending webhooks: the body, its signatures, and a connection that reaches only whom it may.

No database here: `parcels.services.webhooks` decides what is sent when.
"""
