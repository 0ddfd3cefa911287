"""What was found, once more: on other targets and in fresh processes."""
