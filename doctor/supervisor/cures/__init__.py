"""What cures a training run: a function a cure, from the config as it is and a finding to the change of settings or None."""
