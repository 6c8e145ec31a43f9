"""Text into words: the named patterns as boundary algebra over frozen Unicode classes, any other through `regex`."""
