"""Answers of a running Linux kernel: scenarios, the recorder that asks, and what was recorded."""
