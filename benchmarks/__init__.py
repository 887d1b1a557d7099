"""What recording and reading cost, against a reference measured in the same run."""
