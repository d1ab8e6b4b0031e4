"""What expressions of a kernel evaluate to: types, conversions, arithmetic."""
