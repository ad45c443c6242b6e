"""The contenders' codes, as results carry them, and their names in tables, in the tables' order."""

from __future__ import annotations

OURS, AGAINST, MM2, FRANZ, PLAIN = "heliograph", "against", "mm2", "franz", "plain"
NAMES = {
    OURS: "Heliograph",
    AGAINST: "another Heliograph",  # `Run.against` is its name
    MM2: "MirrorMaker 2",
    FRANZ: "franz-go",
    PLAIN: "plain lane",
}
