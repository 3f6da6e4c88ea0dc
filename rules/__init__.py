"""What can go wrong in a log: one YAML file a rule, by origin, with both languages and its examples inside. Data only."""
