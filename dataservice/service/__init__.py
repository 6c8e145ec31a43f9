"""A store over the network: `python -m dataservice serve STORE`, and the store that reads from such servers."""
