"""`python -m harness.commands`: the command splitbrain, by this interpreter."""

from harness.commands.main import main

main()
