"""The benchmark against the peers: `script/bench`. Beside the product: nothing of it imports this package."""
