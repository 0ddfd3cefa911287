"""Taking apart what one test can't tell: confounded causes, and findings that dispute each other."""
