"""What `autoinfer table` is made of."""
