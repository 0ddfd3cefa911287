"""Text and instruction items made from what every Python installation carries: no torch, no download."""
