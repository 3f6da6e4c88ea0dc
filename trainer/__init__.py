"""The built-in MindSpore trainer. MindSpore is imported here and nowhere else in the program."""
