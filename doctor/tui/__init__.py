"""The terminal user interface. Textual is imported here and nowhere else, and this package only by commands, lazily."""
