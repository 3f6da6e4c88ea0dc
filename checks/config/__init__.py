"""Training configs: every check sees only the normalised plan (`doctor.plan`)."""
