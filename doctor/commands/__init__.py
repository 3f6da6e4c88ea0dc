"""The commands: one module each, thin. A module has ``configure(parser)`` and ``run(args) -> exit code``.

`doctor.cli` imports only the module of the command that was asked for.
"""
