"""`python -m pilum.cli`: the command without its script."""

from pilum.cli import main

main()
