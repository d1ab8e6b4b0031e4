"""Programs on several devices of one host: what stands above the device in a mapping."""
