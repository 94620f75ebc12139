"""`barnabas completion`: what a shell must read to complete our commands."""

import click
from click.shell_completion import get_completion_class

_SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=click.Choice(_SHELLS))
def command(shell: str) -> None:
    """Print the completion script of your shell.

    \b
    bash: echo 'eval "$(barnabas completion bash)"' >> ~/.bashrc
    zsh:  echo 'eval "$(barnabas completion zsh)"' >> ~/.zshrc
    fish: barnabas completion fish > ~/.config/fish/completions/barnabas.fish
    """
    from barnabas.cli import cli

    completion = get_completion_class(shell)
    if completion is None:
        raise click.UsageError(f"no completion for {shell}")
    click.echo(completion(cli, {}, "barnabas", "_BARNABAS_COMPLETE").source())
