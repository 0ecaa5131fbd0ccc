"""What a running job tells of itself: status, health, metrics, and how far it is."""
