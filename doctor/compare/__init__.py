"""What differs between two runs, two configurations or two machines, and which of it most likely explains the outcome.

`subject` reads what a person names, `settings`, `environment` and `outcome` make rows of what differs, `order` puts them
in the order of what they explain.
"""
