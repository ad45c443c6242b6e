"""The entry point: mounts the commands, and turns every error into one clean message and an exit code.

Owns what a user sees when something goes wrong. Must not know what a command does. Nothing heavy is imported
here or at the top of a command's module: `heliograph --help` must not wait for Spark.

    0 done · 1 the answer is no · 2 wrong use or config · 3 a cluster cannot be reached · 4 internal error
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence

import typer

from heliograph.interface.cli import config, demo, events, lab, logs, pack, plan, run, status, topics, version
from heliograph.model.errors import ConfigError, HeliographError, UsageError

# Names that are promised and still to come: refused, and absent from help. A command that is written leaves
# this list and is mounted below: app.command("verify", epilog=verify.EPILOG)(verify.command).
NOT_BUILT = (
    "verify",
    "offsets",
    "groups",
    "link",
)

app = typer.Typer(
    name="heliograph",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Mirror Kafka clusters: raw batches, exactly once, identical offsets, on Spark.",
    epilog="Example: heliograph config example > heliograph.yaml",
)
app.command("run", epilog=run.EPILOG)(run.command)
app.command("plan", epilog=plan.EPILOG)(plan.command)
app.command("status", epilog=status.EPILOG)(status.command)
app.command("events", epilog=events.EPILOG)(events.command)
app.command("demo", epilog=demo.EPILOG)(demo.command)
app.add_typer(topics.app, name="topics")
app.add_typer(config.app, name="config")
app.add_typer(lab.app, name="lab")
app.command("pack", epilog=pack.EPILOG)(pack.command)
app.command("version", epilog=version.EPILOG)(version.command)


@app.callback()
def options(level: logs.LevelOption = None, log_format: logs.LogFormatOption = None) -> None:
    """Runs before every command, so it also resets what an earlier call in this process has set."""
    logs.configure(level or logs.Level.info, log_format or logs.LogFormat.text)


def _mount_not_built(name: str) -> None:
    def refuse() -> None:
        raise UsageError(f"`heliograph {name}` is not built yet", hint="`heliograph --help` lists what is")

    anything = {"allow_extra_args": True, "ignore_unknown_options": True}
    app.command(name, hidden=True, add_help_option=False, context_settings=anything)(refuse)


for _name in NOT_BUILT:
    _mount_not_built(_name)


def main(arguments: Sequence[str] | None = None) -> None:
    try:
        app(args=arguments, prog_name="heliograph")
    except HeliographError as error:
        _report(error)
        sys.exit(error.exit_code)
    except Exception as error:  # noqa: BLE001  the last line of defence: a user never sees a bare traceback
        _report_internal(error)
        sys.exit(4)


def _report(error: HeliographError) -> None:
    for problem in error.problems if isinstance(error, ConfigError) else (error.message,):
        print(f"error: {problem}", file=sys.stderr)
    if error.hint:
        print(f"hint: {error.hint}", file=sys.stderr)
    if logs.debugging():
        traceback.print_exception(error)


def _report_internal(error: Exception) -> None:
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    print(f"error: internal error: {type(error).__name__}: {error}{place}", file=sys.stderr)
    print("hint: run it again with --log-level debug for the whole traceback, and report it", file=sys.stderr)
    if logs.debugging():
        traceback.print_exception(error)


if __name__ == "__main__":
    main()
