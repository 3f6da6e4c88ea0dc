"""Every config dialect becomes one training plan whose values know where they stand, and the plan's arithmetic."""
