"""The predicted time of a launch, and why it is that: by line, and what would gain most."""
