"""The error types that a command can end with, and its exit codes.

A message is one line that names what was attempted, what was expected and what was found; the command line prints it
unchanged. Any other exception is a defect of splitbrain: the command prints its traceback and exits 255.
"""

MESSAGE_CHARACTERS_MAX = 4500
"""More than any path can have (4096), with what is said of it."""

EXIT_VALID = 0
EXIT_INVALID = 1
EXIT_UNKNOWN = 2
EXIT_USAGE = 254
EXIT_INTERNAL = 255


def one_line(message: str) -> str:
    """The message in one line of printable characters: others are escapes, and a very long middle is left out.

    Only what a user typed can be as long as that, e.g. a path.
    """
    line = "".join(each if each.isprintable() else repr(each)[1:-1] for each in message)
    half = MESSAGE_CHARACTERS_MAX // 2
    return line if len(line) <= MESSAGE_CHARACTERS_MAX else f"{line[:half]} … {line[-half:]}"


def reason_of(error: OSError) -> str:
    """Why the system refused an operation, in lower case, as the end of a message."""
    return (error.strerror or str(error)).lower()


class SplitbrainError(Exception):
    """The base of all errors that splitbrain raises deliberately."""

    exit_code = EXIT_INTERNAL


class BadInput(SplitbrainError):
    """Invalid user input: a flag, a plan, a history file. The message names the place and what was expected."""

    exit_code = EXIT_USAGE


class EnvironmentFailure(SplitbrainError):
    """The machine lacks or denies something: a program, a permission, disk space, the network."""


class PeerFailure(SplitbrainError):
    """A node did not answer, or its answer violates the protocol."""
