"""`python -m cli` is `autoinfer`."""

from cli.main import main

main()
