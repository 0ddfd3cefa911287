"""The pages, one file each: what its URL may say, what it reads, which events change it."""
