"""What several tests share: servers, child programs, makers of stores and files."""
