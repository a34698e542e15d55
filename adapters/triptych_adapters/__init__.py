"""What faces people and agents."""
