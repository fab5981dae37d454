"""The three kinds of error a command can end with, and the exit code of each.

A message is one line that names what was attempted, what was expected and what came; the command line prints it
as it is. Anything else that escapes is a defect of ours and shows as exit 255 with its traceback in the run's log.
"""

EXIT_VALID = 0
EXIT_INVALID = 1
EXIT_UNKNOWN = 2
EXIT_USAGE = 254
EXIT_INTERNAL = 255


class SplitbrainError(Exception):
    """The base of every error we raise on purpose."""

    exit_code = EXIT_INTERNAL


class BadInput(SplitbrainError):
    """The user's input: a flag, a plan, a history file. The message names the place and what was expected."""

    exit_code = EXIT_USAGE


class EnvironmentFailure(SplitbrainError):
    """The machine lacks or refuses something: a program, a permission, space on a disk, the network."""


class PeerFailure(SplitbrainError):
    """A node did not answer, or answered what its protocol does not allow."""
