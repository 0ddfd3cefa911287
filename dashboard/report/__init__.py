"""A campaign's report as HTML or Markdown: one document of sections, tables and figures, written two ways."""
