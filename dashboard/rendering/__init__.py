"""From values to HTML: the templates' environment and figures as text."""
