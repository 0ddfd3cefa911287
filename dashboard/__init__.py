"""The web dashboard (pages, partials, event stream); nothing here knows how an experiment runs."""
