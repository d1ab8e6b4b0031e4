"""What an inference method returns: draws, weights, chains."""
