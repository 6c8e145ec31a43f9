"""Distinct words, how often they occur, and which repositories and languages hold them."""
