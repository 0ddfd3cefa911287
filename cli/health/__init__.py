"""What `autoinfer doctor` looks at."""
