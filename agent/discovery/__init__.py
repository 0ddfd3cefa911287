"""Online control of false discoveries: the level at which the next test of a campaign can be supported."""
