"""Access, rate limits and size limits of clients, and the audit log."""
