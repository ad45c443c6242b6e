"""The driver's loop: observe, plan, act."""
