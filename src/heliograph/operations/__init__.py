"""What an operator does: looks, decides, records what is wanted. Knows the controller, and no command line."""
