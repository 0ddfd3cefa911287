"""What the pages do: the same acts as the commands, sent by forms."""
