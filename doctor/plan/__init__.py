"""Every config dialect to one training plan whose values know their file, line and key; memory and batch arithmetic."""
