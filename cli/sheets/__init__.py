"""What `autoinfer show` prints about one thing: a sheet for each noun."""
