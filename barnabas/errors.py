"""What a verb raises when it cannot do what it was asked.

    UserError               it failed: one line on stderr, exit code 1
        WrongCall           the call itself was wrong: the same with exit code 2
    click.UsageError        what click raises for wrong calls, with the usage; verbs may too: exit code 2

A KafkaError may simply be let through: the command line prints it like a UserError.
"""


class UserError(Exception):
    """One line that says to a person what failed and, where possible, what would help."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class WrongCall(UserError):
    """The options do not make sense, whatever the state of the world."""
