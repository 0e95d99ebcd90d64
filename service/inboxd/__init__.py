"""inboxd: the mail system for running coding agents."""

__version__ = "0.1.0"
