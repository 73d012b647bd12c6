"""The yardstick for the asynchronous API: a bare view that writes the same row."""
