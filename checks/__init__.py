"""What can be judged before a run. One package a family; see `doctor.registry` for how checks are found."""
