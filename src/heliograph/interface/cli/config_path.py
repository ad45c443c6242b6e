"""How a command is told its config file; what to do without is interface.config.location's."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ConfigArgument = Annotated[
    Path | None,
    typer.Argument(
        metavar="CONFIG",
        help="Config file; else $HELIOGRAPH_CONFIG, else ./heliograph.yaml.",
        show_default=False,
    ),
]
ConfigOption = Annotated[
    Path | None,
    typer.Option("-f", "--config", metavar="CONFIG", help="The same, as an option.", show_default=False),
]
