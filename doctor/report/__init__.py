"""What a command has to say (`model`) and the forms it is written in: text, JSON, SARIF, GitHub annotations."""
