"""Which paths of a capture are smaller than their senders think, and who did not hear of it."""
