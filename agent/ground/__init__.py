"""What a campaign stands on, looked at before anything is measured: its model, its target, what it may ask.

Plans and campaigns rest on it; it knows neither.
"""
