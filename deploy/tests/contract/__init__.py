"""One black-box suite for every strategy: whatever serves the application, clients see the same."""
