"""Weight files read from their headers without a framework, and the name maps of model families."""
