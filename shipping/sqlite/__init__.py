"""Django's SQLite backend for many threads: see `base`. Only the embedded default uses it."""
