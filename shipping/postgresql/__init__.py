"""PostgreSQL as this project uses it: Django's engine with bounds and a cheaper pool."""
